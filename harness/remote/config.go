// Package remote carries out tasks on workers of a build cluster (Remote Execution API v2),
// instead of on this machine. Place is an execute.Place: it writes down what a worker has to do
// (package job), has the helper program fiador-remote send it, and holds the answer against the
// task before anything of it is used. Everything after that is the code of package execute.
//
// The worker starts the shim, the sandbox of this program as a program of its own. The clauses of
// an execution are those that the shim reached there.
//
// specs/remote.md specifies the documents and the protocol.
package remote

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// Config says where workers are, and how to speak to them.
type Config struct {
	Execution string            `json:"execution"`
	CAS       string            `json:"cas"`
	Instance  string            `json:"instance"`
	Platform  map[string]string `json:"platform"`
	Arch      string            `json:"arch"`
	TLS       TLS               `json:"tls"`
	Headers   map[string]string `json:"headers"` // names of variables
	Shim      map[string]string `json:"shim"`    // program, by architecture
	Parallel  int               `json:"parallel"`
	WaitMS    int               `json:"wait_ms"`
}

// TLS names files of a connection.
type TLS struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

var configDecoder canon.Decoder[Config]

// Form is the form of the document of --remote.
func Form() document.Form {
	return document.Form{Name: "a remote execution", Schema: specs.KindRemote, MaxBytes: 64 << 10, Invalid: result.CodeProfile, TooLarge: "write less into it: a cluster needs a few lines"}
}

// The defaults of a Config.
const (
	defaultParallel = 16
	defaultWaitMS   = 60_000
)

// ReadConfig reads the document of --remote. Relative names of files begin at dir, and names of
// shims that are missing are those beside the program. name is the document's name in messages.
func ReadConfig(set *specs.Set, name string, src []byte, dir, program string) (Config, error) {
	text, err := document.Read(set, name, src, Form())
	if err != nil {
		return Config{}, err
	}
	c, err := configDecoder.Decode(text.Doc.Value())
	if err != nil {
		return Config{}, text.Invalid("", err.Error(), "correct the document")
	}
	for pointer, address := range map[string]string{"/execution": c.Execution, "/cas": c.CAS} {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Hostname() == "" || !port(u.Port())) {
			return Config{}, text.Invalid(pointer, canon.Quote(address)+" is not an address with a host and a port", "write grpcs://HOST:PORT")
		}
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return Config{}, text.Invalid("/tls", "cert and key belong together", "name both, or neither")
	}
	beneath := func(name *string) {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(dir, *name)
		}
	}
	for _, name := range []*string{&c.TLS.CA, &c.TLS.Cert, &c.TLS.Key} {
		beneath(name)
	}
	shims := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		shim := c.Shim[arch]
		if beneath(&shim); shim == "" {
			shim = filepath.Join(filepath.Dir(program), "fiador-shim-linux-"+arch)
		}
		shims[arch] = shim
	}
	c.Shim = shims
	if c.Arch == "" {
		c.Arch = runtime.GOARCH
	}
	if c.Parallel == 0 {
		c.Parallel = defaultParallel
	}
	if c.WaitMS == 0 {
		c.WaitMS = defaultWaitMS
	}
	return *c, nil
}

func port(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
