package main

import (
	"strings"
	"testing"
	"time"
)

// TestToolsReport: the section has every table, and says which goal is missed.
func TestToolsReport(t *testing.T) {
	one := func(name string, d time.Duration) series { return series{name, []sample{{Wall: d}}} }
	const ms = time.Millisecond
	m := &called{
		sizes: toolSizes{tools: 1000, bytes: 1_000_000_000}, server: "1.2.3", indexed: 1 << 20, load: "0.10",
		executed: []series{one(actionWay, 100*ms), one(callWay, 104*ms), one(withToolsWay, 101*ms)},
		planned:  []series{one(actionWay, 6*ms), one(manyWay, 9*ms), one(callWay, 6*ms), one(manyActionWay, 9*ms)},
		servers:  []series{one(serverWay, 140*ms), one(sdkWay, 100*ms), one(allCoresWay, 120*ms)},
		connects: []series{one(directConn, ms), one(proxyConn, 3*ms)},
		copies:   []series{one(directConn, 500*ms), one(proxyConn, time.Second)},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| a call of type cli, of the run action | ≤ 1.05 | 1.04 | met |",
		"| a call of type mcp on one core, of the server alone on all | ≤ 1.30 | 1.40 | **missed** |",
		"| a call of type mcp, of the server alone, both on all cores | ≤ 1.30 | 1.20 | met |",
		"| the index of 1000 tools and one call, beyond the run action | ≤ 2.00 ms | 3.00 ms | **missed** |",
		"| a connection through the proxy, beyond a direct one | ≤ 1.00 ms | 2.00 ms | **missed** |",
		"| through the proxy, MB a second | ≥ 500 | 1000 | met |",
		"| through the proxy | 1000 ms | 1000 ms | 1000 ms | 1000 | 0.50 |",
		"quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	m.server = ""
	if got := string(m.markdown(machine{}, false)); !strings.Contains(got, "was not in PATH") || strings.Contains(got, "of type mcp") {
		t.Errorf("without a server:\n%s", got)
	}
}

// TestFarSide: both ways to the server bring the bytes that it sends.
func TestFarSide(t *testing.T) {
	far, err := newFarSide()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for name, way := range map[string]func(int) (time.Duration, time.Duration, error){directConn: far.direct, proxyConn: far.proxied} {
		for _, n := range []int{0, 1, 3_000_000} {
			if connected, _, err := way(n); err != nil || connected <= 0 {
				t.Errorf("%s, %d bytes: %v %v", name, n, connected, err)
			}
		}
	}
	far.hello[0]++
	if _, _, err := far.proxied(1); err == nil {
		t.Error("what is no TLS passed the proxy")
	}
}
