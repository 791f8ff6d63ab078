package contract

import "testing"

func TestSignalName(t *testing.T) {
	for n, want := range map[int]string{1: "SIGHUP", 9: "SIGKILL", 10: "SIG10", 12: "SIG12", 15: "SIGTERM", 16: "SIG16", 64: "SIG64", 0: "SIG0"} {
		if got := SignalName(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
