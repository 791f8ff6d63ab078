// Command fiador-ledgerd is a ledger server: it keeps one ledger for many machines. It
// stores the records that clients send in a log of Tessera, in the order in which it takes
// them, and answers with a signed promise. The protocol is specs/ledger-server.md.
//
// Here are the commands. What a log needs has packages of its own: tokens, witness and claims,
// storage above these two, and server, which writes the log and answers clients.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/tokens"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/ledger"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `usage:
  fiador-ledgerd serve STORAGE --origin NAME --key FILE --listen ADDR --clients FILE
                       [--tls-cert FILE --tls-key FILE] [--public-read] [--witness-policy FILE]
  fiador-ledgerd key --origin NAME --key FILE
  fiador-ledgerd token NAME --may append|read [--clients FILE]
  fiador-ledgerd check STORAGE --origin NAME --key FILE
  fiador-ledgerd import LEDGER STORAGE --origin NAME --key FILE --url URL
  fiador-ledgerd rotate-key STORAGE --origin NAME --key OLD --next NEW

check says what is known of a log, and changes nothing; it works beside a server.
import moves a ledger from a folder to a log, byte for byte. The folder then takes
no more records and names the URL. rotate-key gives a log another key, which key has
made. No server may run meanwhile. What was killed can be started again.
A command ends with 0, or with 2 if it could not be done or check found a fault.

STORAGE is --posix DIR, or --mysql DSN --s3 URL:
  DSN  USER@tcp(HOST:PORT)/DATABASE?tls=true, or USER@unix(SOCKET)/DATABASE;
       the password is in the variable FIADOR_LEDGERD_MYSQL_PASSWORD
  URL  s3://BUCKET[?endpoint=https://HOST:PORT&region=REGION]
`

// run executes a command and returns its exit status: 0, or 2 if it could not be done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	log := &printer{to: stderr}
	err := fmt.Errorf("%w: the command is serve, import, check, rotate-key, key or token", errUsage)
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			storage.Quiet(log.Complain)
			err = serve(ctx, args[1:], log, server.Config{Now: time.Now})
		case "import":
			storage.Quiet(nothing) // what the command says is enough
			err = importLedger(ctx, args[1:], stdout, log)
		case "check":
			storage.Quiet(nothing)
			err = checkLog(args[1:], stdout, log, time.Now)
		case "rotate-key":
			storage.Quiet(nothing)
			err = rotateKey(args[1:], stdout, log, func(string) {})
		case "key":
			err = key(args[1:], stdout)
		case "token":
			err = token(args[1:], stdout, stderr)
		case "help", "-h", "--help":
			err = flag.ErrHelp
		}
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		log.Printf("%v", err)
		if errors.Is(err, errUsage) {
			fmt.Fprint(stderr, usage)
		}
		return 2
	}
	return 0
}

var errUsage = errors.New("wrong arguments")

// parse reads flags, of which each text is required unless optional says otherwise.
func parse(flags *flag.FlagSet, args []string, optional ...string) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not expected", flags.Arg(0))
	}
	flags.VisitAll(func(f *flag.Flag) {
		if err == nil && f.Value.String() == "" && !slices.Contains(append(optional, "posix", "mysql", "s3"), f.Name) {
			err = fmt.Errorf("--%s is missing", f.Name)
		}
	})
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return fmt.Errorf("%w: %w", errUsage, err)
}

func token(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("token", flag.ContinueOnError)
	may, file := flags.String("may", "", ""), flags.String("clients", "", "")
	if len(args) == 0 {
		return fmt.Errorf("%w: the name of the client is missing", errUsage)
	}
	if err := parse(flags, args[1:], "clients"); err != nil {
		return err
	}
	return tokens.New(args[0], *may, *file, stdout, stderr)
}

func key(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("key", flag.ContinueOnError)
	origin, file := flags.String("origin", "", ""), flags.String("key", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	return newKey(*origin, *file, stdout)
}

// newKey makes the key of a log in a new file, and prints its verifier key.
func newKey(origin, file string, stdout io.Writer) error {
	private, verifier, err := ledger.GenerateKey(rand.Reader, origin)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := durable.Write(root, filepath.Base(file), []byte(private+"\n"), 0o600); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("key %s is there already: name a new file, for a key is never replaced", strconv.Quote(file))
		}
		return err
	}
	_, err = fmt.Fprintln(stdout, verifier)
	return err
}

// serve answers requests until a signal comes or ctx ends.
func serve(ctx context.Context, args []string, log *printer, c server.Config) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	var w where
	w.flags(flags)
	flags.StringVar(&c.Listen, "listen", "", "")
	flags.StringVar(&c.Clients, "clients", "", "")
	flags.StringVar(&c.TLSCert, "tls-cert", "", "")
	flags.StringVar(&c.TLSKey, "tls-key", "", "")
	flags.StringVar(&c.Policy, "witness-policy", "", "")
	flags.BoolVar(&c.Public, "public-read", false, "")
	if err := parse(flags, args, "tls-cert", "tls-key", "witness-policy"); err != nil {
		return err
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fmt.Errorf("%w: --tls-cert and --tls-key come together", errUsage)
	}
	var err error
	if c.Signer, err = w.signer(w.key); err != nil {
		return err
	}
	c.Open = func() (storage.Storage, error) { return w.open(storage.NewIdentity(c.Signer), log) }
	return c.Serve(ctx, log)
}

// printer writes lines for people.
type printer struct {
	to io.Writer

	mu     sync.Mutex
	hidden string
	said   map[string]time.Time
}

// hide keeps a path out of all lines.
func (p *printer) hide(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hidden = path
}

func (p *printer) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if p.hidden != "" {
		text = strings.ReplaceAll(text, p.hidden, "DIR")
	}
	fmt.Fprintf(p.to, "fiador-ledgerd: %s\n", strings.ReplaceAll(text, "\n", "; "))
}

// nothing drops what complain would say.
func nothing(string, any) {}

// Complain says what goes wrong, and why, once a minute.
func (p *printer) Complain(what string, err any) {
	p.mu.Lock()
	quiet := time.Since(p.said[what]) < time.Minute
	if !quiet {
		if p.said == nil {
			p.said = map[string]time.Time{}
		}
		p.said[what] = time.Now()
	}
	p.mu.Unlock()
	if !quiet {
		p.Printf("%s: %v", what, err)
	}
}
