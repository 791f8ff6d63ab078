package remote

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/ledger"
)

// TestInterruptedReaders: a reader that a signal interrupts accuses no server. The cause of
// such an interrupt is an error of its own.
func TestInterruptedReaders(t *testing.T) {
	for name, read := range map[string]func(context.Context, Place) error{
		"audit": func(ctx context.Context, p Place) error {
			_, err := Audit(ctx, p, ledger.AuditOptions{})
			return err
		},
		"read": func(ctx context.Context, p Place) error {
			_, err := Read(ctx, p)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.fill(300)
			p := s.place(t, t.TempDir())
			r, err := Read(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			closed := r.Close()
			s.fill(700) // the reader has to read tiles to hold it against the remembered checkpoint
			ctx, interrupt := context.WithCancelCause(t.Context())
			s.mu.Lock()
			s.lie = func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, "/tile/") {
					return false
				}
				interrupt(errors.New("interrupt signal received"))
				<-r.Context().Done()
				return true
			}
			s.mu.Unlock()
			if err := read(ctx, p); !errors.Is(err, context.Canceled) || ledger.Broken(err) {
				t.Errorf("%v", err)
			}
			if kept, _ := filepath.Glob(filepath.Join(p.State, "*", againstFolder, "*")); len(kept) != 0 || closed != nil {
				t.Errorf("kept %v, %v", kept, closed)
			}
		})
	}
}
