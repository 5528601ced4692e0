package kernel

import (
	"errors"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// settingKey is the prefix of the journal's keys for settings that are restored when the plane is
// removed. The values are the settings' original values.
const settingKey = "setting "

// arpSettings are the settings of host.StrictARP, with their original values in a journal. Its methods run in
// the namespace of the journal.
type arpSettings struct {
	store   host.SettingStore
	journal *Journal
}

func (p *Plane) arpSettings() arpSettings { return arpSettings{p.host, p.journal} }

// applyStrictARP makes the settings of host.StrictARP, or restores the original ones if StrictARP
// is off. It runs in the plane's namespace.
func (p *Plane) applyStrictARP() ([]kernelmode.Setting, error) {
	if !p.opts.StrictARP {
		return nil, p.arpSettings().restore()
	}
	return p.arpSettings().apply(p.opts.OriginalSettings)
}

// apply makes the settings. The original values are in the journal before. Inherited are the values from
// before the plane that this one replaces.
func (a arpSettings) apply(inherited map[string]string) ([]kernelmode.Setting, error) {
	for _, s := range host.StrictARP {
		key := settingKey + s.Name
		if _, known := a.journal.Get(key); known {
			continue
		}
		found, err := a.store.Setting(s.Name)
		if err != nil {
			continue // ApplySettings reports it
		}
		s.Before = found
		if before, known := inherited[s.Name]; known {
			a.journal.Put(key, before)
		} else if !s.Holds() {
			a.journal.Put(key, s.Before)
		}
	}
	if err := a.journal.Flush(); err != nil {
		return nil, err
	}
	return host.ApplySettings(a.store, host.StrictARP), nil
}

// restore restores the values that the settings had before the first plane. A setting that another program
// has changed since is left alone.
func (a arpSettings) restore() error {
	var errs []error
	for _, s := range host.StrictARP {
		before, known := a.journal.Get(settingKey + s.Name)
		if !known {
			continue
		}
		if found, err := a.store.Setting(s.Name); err == nil && found == s.Want {
			errs = append(errs, a.store.Set(s.Name, before))
		}
		a.journal.Delete(settingKey + s.Name)
	}
	return errors.Join(append(errs, a.journal.Flush())...)
}

// original returns the values that the settings had before the first plane.
func (a arpSettings) original() map[string]string {
	found := map[string]string{}
	for _, s := range host.StrictARP {
		if before, known := a.journal.Get(settingKey + s.Name); known {
			found[s.Name] = before
		}
	}
	return found
}

// repairSettings restores settings that another program has changed.
func (p *Plane) repairSettings() {
	host.Within(p.opts.Namespace, func() error { //nolint:errcheck // the namespace was there before
		for i := range p.settings {
			s := &p.settings[i]
			if !s.Watch {
				continue
			}
			now := host.ApplySettings(p.host, []kernelmode.Setting{{Name: s.Name, Want: s.Want, AtLeast: s.AtLeast}})
			if len(now) == 0 {
				continue
			}
			if s.Err == nil && (now[0].Err != nil || !now[0].Holds()) {
				p.log.Warn("drift repaired", "difference", now[0].String())
			}
			s.Err = now[0].Err
		}
		return nil
	})
}
