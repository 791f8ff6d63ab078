package pack

import "fmt"

// Oversize says why a file of that name would not be read because of how much it holds,
// or is empty.
func Oversize(name string, text []byte) string {
	switch {
	case int64(len(text)) > MaxBytes(name):
		return fmt.Sprintf("it has %d bytes, and the limit is %d", len(text), MaxBytes(name))
	case name != LedgerFile && crowded(text):
		return fmt.Sprintf("it has more than %d values", maxValues)
	}
	return ""
}
