package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/tokens"
	"github.com/fiador/fiador/ledger"
)

// TestManyBlobs: more blobs than the server reads and writes at a time are refused as busy, and
// taken when others have ended.
func TestManyBlobs(t *testing.T) {
	t.Parallel()
	r := newPlace(t).start(server.Config{})
	blob := []byte("evidence")
	if got := r.put(blob); got.status != 204 {
		t.Fatal(got.status)
	}
	path := "/v1/evidence/" + hash(string(blob)).Hex()
	var halves []net.Conn
	for i := range 128 { // each has sent a half of its blob
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		check(t, err)
		name := hash(fmt.Sprintf("blob-%07d", i)).Hex()
		_, err = fmt.Fprintf(c, "PUT /v1/evidence/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n", name, r.tokens["ci"])
		check(t, err)
		_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))) // the server reads the blob
		check(t, err)
		_, err = c.Write([]byte("blob-0"))
		check(t, err)
		halves = append(halves, c)
	}
	r.refused("one more blob", r.put([]byte("more")), 503, "busy")
	r.refused("one that is read", r.get(path), 503, "busy")
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	for i, c := range halves {
		_, err := fmt.Fprintf(c, "%06d", i)
		check(t, err)
		answer := make([]byte, len("HTTP/1.1 204"))
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 204" {
			t.Fatalf("blob %d: %s, %v", i, answer, err)
		}
		check(t, c.Close())
	}
	if got := r.get(path); got.status != 200 || !bytes.Equal(got.body, blob) {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

// TestTokensAtOnce: commands that add clients to one file at once all succeed.
func TestTokensAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var all sync.WaitGroup
	var given [16]string
	for i := range given {
		all.Go(func() {
			var out, said bytes.Buffer
			if status := run(context.Background(), []string{"token", fmt.Sprintf("runner-%d", i), "--may", "append", "--clients", p.file}, &out, &said); status != 0 {
				t.Errorf("token: %s", &said)
			}
			given[i] = strings.TrimSpace(out.String())
		})
	}
	all.Wait()
	known, err := tokens.Read(p.file)
	check(t, err)
	if len(known) != len(given)+len(p.tokens) {
		t.Errorf("the file has %d clients", len(known))
	}
	for i, token := range given {
		if c, ok := known.Of(token); !ok || c.Name != fmt.Sprintf("runner-%d", i) || !c.MayAppend {
			t.Errorf("client %d: %v", i, c)
		}
	}
	if _, err := os.Stat(p.file + ".lock"); err != nil {
		t.Error(err)
	}
}

// TestCacheHeaders: what never changes may be kept, by everybody only if everybody may read it.
// Nothing else is kept.
func TestCacheHeaders(t *testing.T) {
	t.Parallel()
	const kept = ", max-age=31536000, immutable"
	for who, more := range map[string][]string{"private": nil, "public": {"--public-read"}} {
		p := newPlace(t)
		check(t, p.start(server.Config{}).stop())
		p.grow(300)
		r := p.start(server.Config{}, more...)
		blob := []byte("evidence")
		r.put(blob)
		recorded := r.post(begun("run-1"))
		r.accepted(begun("run-1"), recorded)
		if cache := recorded.header.Get("Cache-Control"); cache != "no-store" {
			t.Errorf("a record: %q", cache)
		}
		r.log(301)
		evidence := "/v1/evidence/" + hash(string(blob)).Hex()
		for path, want := range map[string]string{
			"/checkpoint": "no-cache", "/" + ledger.NameOrigin: "no-cache", "/tile/0/001.p/44": "no-cache", "/tile/entries/001.p/44": "no-cache",
			"/tile/0/000.p/3": "no-cache", "/tile/0/000": who + kept, "/tile/entries/000": who + kept, evidence: "private" + kept,
			"/v1/runs/run-1": "no-store", "/tile/0/002": "no-store", "/none": "no-store", evidence[:len(evidence)-1] + "x": "no-store",
		} {
			got := r.get(path)
			if cache := got.header.Get("Cache-Control"); cache != want {
				t.Errorf("%s, %s: %d, Cache-Control %q and not %q", who, path, got.status, cache, want)
			}
			if got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, got.header)
			}
		}
		if got := r.do("GET", "/tile/0/000", "", nil); who == "private" && (got.status != 401 || got.header.Get("Cache-Control") != "no-store") {
			t.Errorf("without a token: %d %v", got.status, got.header)
		}
	}
}
