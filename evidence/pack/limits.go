package pack

import (
	"fmt"

	"github.com/fiador/fiador/kernel/canon"
)

// Oversize says why a reader would refuse a file of that name because of its size, or
// returns "".
func Oversize(name string, text []byte) string {
	switch {
	case int64(len(text)) > MaxBytes(name):
		return fmt.Sprintf("it has %d bytes, and the limit is %d", len(text), MaxBytes(name))
	case name != LedgerFile && canon.Crowded(text, MaxValues):
		return "it has " + ErrCrowded.Error()
	}
	return ""
}
