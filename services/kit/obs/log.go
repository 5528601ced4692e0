package obs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
)

// Format is the format of log lines.
type Format string

// The formats. FormatAuto is text on a terminal and JSON otherwise.
const (
	FormatAuto Format = "auto"
	FormatJSON Format = "json"
	FormatText Format = "text"
)

// UnmarshalText implements encoding.TextUnmarshaler, for use in configurations.
func (f *Format) UnmarshalText(text []byte) error {
	switch got := Format(text); got {
	case FormatAuto, FormatJSON, FormatText:
		*f = got
		return nil
	}
	return errors.New("want auto, json or text")
}

// NewLogger returns a logger that writes to w, and its level, which may be changed at any time.
func NewLogger(w io.Writer, level slog.Level, format Format) (*slog.Logger, *slog.LevelVar) {
	lv := new(slog.LevelVar)
	lv.Set(level)
	opts := &slog.HandlerOptions{Level: lv}
	if format == FormatText || (format != FormatJSON && isTerminal(w)) {
		return slog.New(slog.NewTextHandler(w, opts)), lv
	}
	return slog.New(slog.NewJSONHandler(w, opts)), lv
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// levelHandler returns the log level on GET and sets it to the request's body on PUT, so that an
// operator can debug a running daemon.
func levelHandler(level *slog.LevelVar) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
		case http.MethodPut:
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64))
			if err == nil {
				err = level.UnmarshalText([]byte(strings.TrimSpace(string(body))))
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		default:
			w.Header().Set("Allow", "GET, PUT")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		fmt.Fprintln(w, strings.ToLower(level.Level().String()))
	})
}
