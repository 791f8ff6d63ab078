package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestAllowed: which addresses a connection may go to, without and with private.
func TestAllowed(t *testing.T) {
	const never, private, public = 0, 1, 2
	for address, want := range map[string]int{
		"8.8.8.8": public, "1.1.1.1": public, "223.255.255.255": public, "2606:4700::1111": public, "2a00::1": public,
		"127.0.0.1": private, "127.255.255.255": private, "::1": private, "10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private,
		"192.168.0.1": private, "fd12:3456::1": private, "fc00::1": private, "172.32.0.1": public,
		"0.0.0.0": never, "0.1.2.3": never, "::": never, "100.64.0.1": never, "100.100.100.200": never, "169.254.169.254": never, "169.254.0.1": never,
		"192.0.0.192": never, "192.0.2.1": never, "192.88.99.1": never, "198.18.0.1": never, "203.0.113.9": never, "224.0.0.1": never,
		"239.1.1.1": never, "240.0.0.1": never, "255.255.255.255": never, "168.63.129.16": never,
		"fe80::1": never, "fe80::1%lo": never, "2a00::1%eth0": never, "ff02::1": never, "fd00:ec2::254": never, "fd20:ce::254": never, "fec0::1": never,
		"::ffff:10.0.0.1": never, "::ffff:127.0.0.1": never, "::ffff:8.8.8.8": never, "::127.0.0.1": never,
		"64:ff9b::8.8.8.8": never, "64:ff9b::7f00:1": never, "64:ff9b:1::1": never, "2002:7f00:1::": never, "2002:808:808::1": never,
		"2001::1": never, "2001:db8::1": never, "3fff::1": never, "5f00::1": never,
	} {
		a := netip.MustParseAddr(address)
		if Allowed(a, false) != (want == public) || Allowed(a, true) != (want >= private) {
			t.Errorf("%s: %t, with private %t", address, Allowed(a, false), Allowed(a, true))
		}
	}
	if Allowed(netip.Addr{}, true) {
		t.Error("no address is allowed")
	}
}

// TestDialChecksEveryAddress: a name is connected to at an address that may be reached, and
// at no other, whatever else it leads to, and however often that changes.
func TestDialChecksEveryAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answers := []string{"127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1"}
	i := 0
	changing := Dialer{func(context.Context, string) ([]netip.Addr, error) {
		i++
		return []netip.Addr{netip.MustParseAddr(answers[i%len(answers)])}, nil
	}}
	for range 2 * len(answers) {
		if c, err := changing.Dial(ctx, "a.example", port, false); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: connection %v, error %v", answers[i%len(answers)], c, err)
		}
	}
	several := Dialer{func(context.Context, string) ([]netip.Addr, error) {
		return addresses("169.254.169.254", "::ffff:127.0.0.1", "127.0.0.1"), nil
	}}
	c, err := several.Dial(ctx, "a.example", port, true)
	if err != nil || c.RemoteAddr().String() != l.Addr().String() {
		t.Errorf("connection %v, error %v", c, err)
	}
	if c, err := (Dialer{}).Dial(ctx, "localhost", port, false); !errors.Is(err, ErrAddress) {
		t.Errorf("localhost: connection %v, error %v", c, err)
	}
	if c, err := (Dialer{}).Dial(ctx, "localhost", port, true); err != nil {
		t.Errorf("localhost, private: connection %v, error %v", c, err)
	}
	for _, answer := range [][]netip.Addr{nil, {{}}} {
		none := Dialer{func(context.Context, string) ([]netip.Addr, error) { return answer, nil }}
		if c, err := none.Dial(ctx, "a.example", port, true); !errors.Is(err, ErrAddress) {
			t.Errorf("no address: connection %v, error %v", c, err)
		}
	}
}
