// Command fiador-ledgerd is a ledger server: it keeps one ledger for many machines. It
// stores the records that clients send in a log of Tessera, in the order in which it takes
// them, and answers with a signed promise. The protocol is specs/ledger-server.md.
//
// The order of what it does with a batch of records, and what a kill before each step
// leaves:
//
//  1. read the claims of the same run ids; a record that is recorded already ends here;
//  2. give the records their time and their submitter: nothing happened;
//  3. write the entries to claims.jsonl and sync it: some lines, of which a torn one is
//     cut off; the next start adds the others to the log;
//  4. add the entries to the log, in the same order, which syncs them: the next start
//     finds them in the log;
//  5. append their indexes to claims.jsonl: the next start finds them too;
//  6. sign the acks and answer: a client that sends a record again gets its first entry.
//
// In a database the claims are rows, which have the index that their entries are going to get,
// and step 5 comes with the claims of the next batch. See mysql.go.
//
// Tessera signs a checkpoint over the log shortly after step 4. A failed step is never
// answered with a promise. The writer then compares claims and log again before it takes
// more records. The log is right where the two differ: claims.jsonl is made again from it,
// and a claim is promised only if its leaf hash is the one of the log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

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
			quiet(log.complain)
			err = serve(ctx, args[1:], log, config{now: time.Now})
		case "import":
			quiet(nothing) // what the command says is enough
			err = importLedger(ctx, args[1:], stdout, log)
		case "check":
			quiet(nothing)
			err = checkLog(args[1:], stdout, log, time.Now)
		case "rotate-key":
			quiet(nothing)
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
		log.printf("%v", err)
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
	return newToken(args[0], *may, *file, stdout, stderr)
}

func key(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("key", flag.ContinueOnError)
	origin, file := flags.String("origin", "", ""), flags.String("key", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	return newKey(*origin, *file, stdout)
}

// serve answers requests until a signal comes or ctx ends.
func serve(ctx context.Context, args []string, log *printer, c config) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	var w where
	w.flags(flags)
	flags.StringVar(&c.listen, "listen", "", "")
	flags.StringVar(&c.clients, "clients", "", "")
	flags.StringVar(&c.tlsCert, "tls-cert", "", "")
	flags.StringVar(&c.tlsKey, "tls-key", "", "")
	flags.StringVar(&c.policy, "witness-policy", "", "")
	flags.BoolVar(&c.public, "public-read", false, "")
	if err := parse(flags, args, "tls-cert", "tls-key", "witness-policy"); err != nil {
		return err
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return fmt.Errorf("%w: --tls-cert and --tls-key come together", errUsage)
	}
	var err error
	if c.signer, err = w.signer(w.key); err != nil {
		return err
	}
	c.open = func() (storage, error) { return w.open(newIdentity(c.signer), log) }
	return c.serve(ctx, log)
}

// config is what a server is told.
type config struct {
	signer          *ledger.Signer          // of the log
	open            func() (storage, error) // opens the log
	listen          string                  // HOST:PORT
	clients         string                  // the file of the clients
	tlsCert, tlsKey string                  // files, or empty without TLS
	policy          string                  // the file of the witnesses' policy, or empty
	public          bool                    // everybody may read checkpoint, tiles and origin.json

	now      func() time.Time
	decorate decorator              // in tests, faults
	ready    func(address net.Addr) // in tests, called once it answers
}

// serve answers requests until a signal comes or ctx ends.
func (c config) serve(ctx context.Context, log messages) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before the clients are read: a later change is not missed
	defer signal.Stop(hangup)
	known, err := readClients(c.clients)
	if err != nil {
		return err
	}
	var cosign *witnesses
	if c.policy != "" {
		if cosign, err = readWitnesses(c.policy, c.signer.Verifier()); err != nil {
			return err
		}
	}
	listener, url, err := listen(c)
	if err != nil {
		return err
	}
	defer listener.Close()
	store, err := c.open()
	if err != nil {
		return err
	}
	if store.who().cosign = cosign; cosign != nil {
		cosign.size, cosign.keep = store.size, store.setDocument
	}
	s := &server{store: store, writer: newWriter(store, c.signer, c.now, log, c.decorate), public: c.public, log: log}
	s.clients.Store(&known)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return s.answer(ctx, hangup, listener, url, c)
}

// answer answers requests until ctx ends, and then those that are under way.
func (s *server) answer(ctx context.Context, hangup <-chan os.Signal, listener net.Listener, url string, c config) error {
	writing, end := context.WithCancel(context.Background())
	defer end()
	h := s.httpServer()
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(listener) }()
	s.log.printf("listening on %s", url)
	begun := make(chan error, 1)
	go func() {
		err := s.writer.begin()
		begun <- err
		if err != nil {
			close(s.writer.ended)
			return
		}
		if c.ready != nil {
			c.ready(listener.Addr())
		}
		s.writer.run(writing)
	}()
	var err error
	for ctx.Err() == nil && err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-s.store.who().cosign.contradicted():
			err = s.store.who().cosign.failed()
		case err = <-begun: // nil: it writes, or waits
		case <-hangup:
			s.readClients(c.clients)
		}
	}
	starting := s.writer.state.Swap(stateEnding) == stateStarting
	finish, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if h.Shutdown(finish) != nil {
		err = errors.Join(err, fmt.Errorf("requests were still under way after %s, and were cut off", answerTime))
	}
	end()
	select {
	case <-s.writer.ended:
		select {
		case e := <-begun:
			err = errors.Join(err, e)
		default:
		}
		if err == nil {
			s.log.printf("ended")
		}
		return err
	case <-time.After(2 * lastCheckpoint):
		if starting {
			s.log.printf("ended before it could write")
			return err
		}
		return errors.Join(err, errors.New("the storage does not answer; at its next start the server completes what was not finished"))
	}
}

// readClients reads the clients file again. If it is bad, the clients stay as they are.
func (s *server) readClients(file string) {
	next, err := readClients(file)
	if err != nil {
		s.log.printf("the clients stay as they were: %v", err)
		return
	}
	s.clients.Store(&next)
	s.log.printf("read %d clients", len(next))
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

func (p *printer) printf(format string, args ...any) {
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

// complain says what goes wrong, and why, once a minute.
func (p *printer) complain(what string, err any) {
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
		p.printf("%s: %v", what, err)
	}
}

func discard() *stdlog.Logger { return stdlog.New(io.Discard, "", 0) }
