package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// batchBytes bounds a batch where the server names no lower limit: with the rest of the
// message it stays below the 4 MiB that gRPC allows by default.
const batchBytes = 3_500_000

// tlsFiles are absolute paths of PEM files.
type tlsFiles struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// client calls one server, or two if the blobs are elsewhere.
type client struct {
	hello    *hello
	redact   *strings.Replacer
	metadata metadata.MD

	capabilities, casCapabilities repb.CapabilitiesClient
	execution                     repb.ExecutionClient
	operations                    longrunningpb.OperationsClient
	cas                           repb.ContentAddressableStorageClient
	bytes                         bytestream.ByteStreamClient

	batch        int64 // bytes in a batch, at most
	noBatchReads atomic.Bool
	transfers    chan struct{} // a slot for each transfer that may run
	actions      chan struct{} // a slot for each action that may run

	mu      sync.Mutex
	sending map[digest]chan struct{} // blobs under way; closed when the upload has ended
}

// dial checks h and makes a client. No call is made yet.
func dial(h *hello) (*client, error) {
	if h.Version != 1 {
		return nil, failf(kindConfig, "version %d of the protocol is unknown; this program speaks version 1", h.Version)
	}
	if h.Parallel < 1 || h.Parallel > 1024 || h.WaitMS < 1 || h.WaitMS > 24*3600*1000 || h.RunID == "" {
		return nil, failf(kindConfig, "hello needs parallel from 1 to 1024, wait_ms from 1 to a day, and a run_id")
	}
	c := &client{hello: h, metadata: metadata.MD{}, batch: batchBytes,
		transfers: make(chan struct{}, h.Parallel), actions: make(chan struct{}, h.Parallel), sending: map[digest]chan struct{}{}}
	if err := c.setHeaders(h.Headers); err != nil {
		return nil, err
	}
	execution, err := h.connect("execution", h.Execution)
	if err != nil {
		return nil, err
	}
	cas := execution
	if h.CAS != "" {
		if cas, err = h.connect("cas", h.CAS); err != nil {
			return nil, err
		}
		c.casCapabilities = repb.NewCapabilitiesClient(cas)
	}
	c.capabilities = repb.NewCapabilitiesClient(execution)
	c.execution = repb.NewExecutionClient(execution)
	c.operations = longrunningpb.NewOperationsClient(execution)
	c.cas = repb.NewContentAddressableStorageClient(cas)
	c.bytes = bytestream.NewByteStreamClient(cas)
	return c, nil
}

// setHeaders checks headers and prepares to take their values out of all messages.
func (c *client) setHeaders(headers map[string]string) error {
	var secrets []string
	for name, value := range headers {
		lower := strings.ToLower(name)
		reserved := strings.HasPrefix(lower, "grpc-") || strings.HasSuffix(lower, "-bin") || slices.Contains([]string{"content-type", "te", "user-agent"}, lower)
		if lower == "" || reserved || strings.Trim(lower, "0123456789abcdefghijklmnopqrstuvwxyz-_.") != "" {
			return failf(kindConfig, "header %q cannot be set", name)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) || value == "" {
			return failf(kindConfig, "the value of header %q is empty or not printable ASCII", name)
		}
		c.metadata.Append(lower, value)
		secrets = append(secrets, value)
		if _, secret, ok := strings.Cut(value, " "); ok && secret != "" { // Bearer SECRET
			secrets = append(secrets, secret)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longest is replaced first
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, "[header]")
	}
	c.redact = strings.NewReplacer(pairs...)
	return nil
}

// connect makes a connection, which is opened by the first call.
func (h *hello) connect(what, address string) (*grpc.ClientConn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" || u.Hostname() == "" || address != u.Scheme+"://"+u.Host {
		return nil, failf(kindConfig, "%s %q is not of the form grpcs://HOST:PORT", what, address)
	}
	secure := insecure.NewCredentials()
	switch ip := net.ParseIP(u.Hostname()); {
	case u.Scheme == "grpcs":
		config, err := h.TLS.config()
		if err != nil {
			return nil, failf(kindConfig, "tls: %v", err)
		}
		secure = credentials.NewTLS(config)
	case u.Scheme != "grpc":
		return nil, failf(kindConfig, "%s %q is not of the form grpcs://HOST:PORT", what, address)
	case u.Hostname() != "localhost" && !ip.IsLoopback():
		return nil, failf(kindConfig, "%s %q %s, use grpcs://", what, address, inClear)
	}
	pause := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	conn, err := grpc.NewClient("dns:///"+u.Host,
		grpc.WithTransportCredentials(secure),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: 10 * time.Second}),
		grpc.WithNoProxy(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return dialer(u.Scheme == "grpc").DialContext(ctx, "tcp", to)
		}),
		grpc.WithUserAgent("fiador/"+h.ToolVersion))
	if err != nil {
		return nil, failf(kindConfig, "%s %q: %v", what, address, err)
	}
	return conn, nil
}

// inClear is why an address is refused.
const inClear = "is not encrypted; grpc:// is for loopback addresses"

// dialer makes connections that notice within a minute that the other side is gone, even if
// nothing is sent. One in clear goes to this machine alone, whatever a name resolves to.
func dialer(clear bool) *net.Dialer {
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
	if clear {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
				return errors.New("a connection to " + address + " " + inClear)
			}
			return nil
		}
	}
	return d
}

func (t *tlsFiles) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return config, nil
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("cert and key are given both or not at all")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// outgoing adds the headers and the RequestMetadata to the calls of ctx.
func (c *client) outgoing(ctx context.Context, actionID string) context.Context {
	data, err := proto.Marshal(&repb.RequestMetadata{
		ToolDetails: &repb.ToolDetails{ToolName: "fiador", ToolVersion: c.hello.ToolVersion},
		ActionId:    actionID, ToolInvocationId: c.hello.RunID, CorrelatedInvocationsId: c.hello.RunID,
	})
	if err != nil {
		panic(err) // only text that is not UTF-8 fails, and requests have none
	}
	md := c.metadata.Copy()
	md.Set("build.bazel.remote.execution.v2.requestmetadata-bin", string(data))
	return metadata.NewOutgoingContext(ctx, md)
}
