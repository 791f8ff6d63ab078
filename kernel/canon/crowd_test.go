package canon

import "testing"

func TestCrowded(t *testing.T) {
	for text, n := range map[string]int{
		"": 0, "1": 0, `[1,2]`: 2, `{"a":[{}]}`: 3, `",[{"`: 0, `"\",[" , `: 1, `[",\\",1]`: 2, `"open , [`: 0, `\",[`: 0,
	} {
		if Crowded([]byte(text), n) || n > 0 && !Crowded([]byte(text), n-1) {
			t.Errorf("%q has not %d", text, n)
		}
	}
}
