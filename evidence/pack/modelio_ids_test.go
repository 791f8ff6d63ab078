package pack

import (
	"strings"
	"testing"
)

// TestModelIOIds: an id that no pack can have is refused when a recording is read, not
// after its replay.
func TestModelIOIds(t *testing.T) {
	for _, id := range []string{"", "m", strings.Repeat("ü", 256), strings.Repeat("ü", 257)} {
		for _, m := range []ModelIO{
			{Version: ModelVersion, AdapterID: id, ModelID: "m", Mode: ModeRecord},
			{Version: ModelVersion, AdapterID: "m", ModelID: id, Mode: ModeRecord},
		} {
			b, err := m.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseModelIO(b)
			if want := map[int]string{0: "MI2 ", 257 * len("ü"): "ST10 "}[len(id)]; err == nil && want != "" || err != nil && (want == "" || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("%d bytes: %v", len(id), err)
			}
		}
	}
}
