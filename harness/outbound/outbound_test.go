package outbound

import (
	"errors"
	"io"
	"log"
	"net"
	"testing"
)

// TestNoProxy: no transport uses a proxy.
func TestNoProxy(t *testing.T) {
	if transport(nil, nil).Proxy != nil {
		t.Error("a proxy can be used")
	}
}

// TestAnotherMachineUnderOurName: the client does not connect to an address of another
// machine, whatever name led to it.
func TestAnotherMachineUnderOurName(t *testing.T) {
	d := (&net.Dialer{ControlContext: control(isOfThisMachine, errElsewhere)}).DialContext
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80", "[::ffff:192.0.2.1]:80", "0.0.0.0:80"} {
		c, err := d(t.Context(), "tcp", address)
		if !errors.Is(err, errElsewhere) {
			t.Errorf("%s: connection %v, error %v", address, c, err)
		}
	}
}

// quiet is the log of servers that are spoken to badly.
var quiet = log.New(io.Discard, "", 0)
