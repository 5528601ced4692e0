package kernel

import (
	"errors"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// settingKey is the prefix of the journal's keys for settings that are restored when the plane is
// removed. The values are the settings' original values.
const settingKey = "setting "

// applyStrictARP makes the settings of host.StrictARP, or restores the original ones if StrictARP
// is off. It runs in the plane's namespace.
func (p *Plane) applyStrictARP() ([]kernelmode.Setting, error) {
	if !p.opts.StrictARP {
		return nil, p.restoreSettings()
	}
	for _, s := range host.StrictARP {
		key := settingKey + s.Name
		if _, known := p.journal.Get(key); known {
			continue
		}
		found, err := p.host.Setting(s.Name)
		if err != nil {
			continue // ApplySettings reports it
		}
		s.Before = found
		if before, inherited := p.opts.OriginalSettings[s.Name]; inherited {
			p.journal.Put(key, before)
		} else if !s.Holds() {
			p.journal.Put(key, s.Before)
		}
	}
	if err := p.journal.Flush(); err != nil {
		return nil, err
	}
	return host.ApplySettings(p.host, host.StrictARP), nil
}

// restoreSettings restores the values that settings had before the first plane. A setting that
// another program has changed since is left alone. It runs in the plane's namespace.
func (p *Plane) restoreSettings() error {
	var errs []error
	for _, s := range host.StrictARP {
		before, known := p.journal.Get(settingKey + s.Name)
		if !known {
			continue
		}
		if found, err := p.host.Setting(s.Name); err == nil && found == s.Want {
			errs = append(errs, p.host.Set(s.Name, before))
		}
		p.journal.Delete(settingKey + s.Name)
	}
	return errors.Join(append(errs, p.journal.Flush())...)
}

// foundSettings returns the values that settings had before the plane.
func (p *Plane) foundSettings() map[string]string {
	found := map[string]string{}
	for _, s := range host.StrictARP {
		if before, known := p.journal.Get(settingKey + s.Name); known {
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
