package pathname

import "testing"

func TestNamesShim(t *testing.T) {
	for arg, want := range map[string]bool{
		ShimPython: true, ShimNode: true, "/fiador": true, "/fiador/": true, "//fiador": true, "/./fiador/.": true, "/fiador/../fiador/shim.py": true,
		"/tmp/../fiador/shim.mjs": true, "../fiador/shim.py": true, "../fiador": true, "a/../../fiador/x": true, "/proc/self/root/fiador/shim.py": true,
		"root/fiador/shim.py": true, "fiador/./shim.mjs": true, "-r/fiador/shim.mjs": true, "--import=file:///fiador/shim.mjs": true, "node /fiador/shim.mjs": true,
		"/fiador/fiador/../shim.py": true,

		"": false, "fiador": false, "cmd/fiador/main.go": false, "./cmd/fiador": false, "/tree/cmd/fiador": false, "fiador.py": false, "shim.py": false,
		"../fiador.py": false, "fiador/shimmer": false, "x/shim.py": false, "https://fiador.example/shim.py": false, "/tmp/fiadors/shim.py": false,
	} {
		if got := NamesShim(arg); got != want {
			t.Errorf("%q: %v", arg, got)
		}
	}
}
