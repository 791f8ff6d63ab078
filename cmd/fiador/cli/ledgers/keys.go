package ledgers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
	"github.com/fiador/fiador/ledger/remote"
)

// NewKey makes an Ed25519 key for an origin and writes the private key to a new file
// that only its owner can read. It replaces no file.
func NewKey(a *cli.App, origin, file string) (*ledger.Signer, error) {
	private, _, err := ledger.GenerateKey(a.Rand, origin)
	if err != nil {
		return nil, err
	}
	signer, err := ledger.ParseSigner(private)
	if err != nil {
		return nil, err
	}
	return signer, writeKey(file, private)
}

// PrintVerifier prints a verifier key. When standard output fails, standard error gets the
// key and the text stands.
func PrintVerifier(a *cli.App, key ledger.Verifier, stands string) error {
	err := a.Print([]byte(key.String() + "\n"))
	if err != nil {
		a.Term.Message(stands + "; the verifier key:")
		fmt.Fprintln(a.Stderr, key)
	}
	return err
}

// Outside refuses a key that lies in what it signs: a "ledger" or a "pack". Such a
// signature would prove nothing.
func Outside(dir, keyFile, what string) error {
	in, err := cli.Beneath(dir, keyFile)
	if in {
		return cli.Unfit("keep it where the "+what+"'s readers cannot get at it", "the key %q lies in the %s that it signs", screen.Path(keyFile), what)
	}
	return err
}

// writeKey writes a private key to a new file that only its owner can read.
func writeKey(name, private string) error {
	taken := func(name string) error {
		return cli.Usage("name a new file: a key is never replaced", "key %q is there already", screen.Path(name))
	}
	if _, err := os.Lstat(name); err == nil {
		return taken(name)
	}
	return cli.AddFile(name, []byte(private+"\n"), nil, 0o600, taken)
}

// SignFlags name a ledger to append to, and its private key.
type SignFlags struct {
	Dir  string
	file string
}

// Register adds the flags to a command. use says what the ledger is for.
func (f *SignFlags) Register(cmd *cobra.Command, use string) {
	cmd.Flags().StringVar(&f.Dir, "ledger", "", "folder or URL of the ledger"+use)
	cmd.Flags().StringVar(&f.file, "ledger-key", "", "file with the private key of the ledger; with a URL, its verifier key (default: the key in FIADOR_LEDGER_KEY)")
}

// KeyFile returns the file of the private key that the command line names, or empty.
func (f SignFlags) KeyFile() string { return f.file }

// Signer returns the folder of the ledger and its private key: from a file that only
// its owner can read, or from FIADOR_LEDGER_KEY. It refuses a key that lies in the
// ledger.
func (f SignFlags) Signer(a *cli.App) (dir string, s *ledger.Signer, err error) {
	if dir, err = Dir(a, f.Dir); err != nil {
		return "", nil, err
	}
	if remote.Named(dir) {
		return "", nil, cli.Unfit("run it for a folder; the operator of the server has fiador-ledgerd", "this command is for ledgers in a folder")
	}
	if f.file == "" {
		text := a.Env("FIADOR_LEDGER_KEY")
		if text == "" {
			return "", nil, cli.Usage("name its file with --ledger-key, or put it into FIADOR_LEDGER_KEY", "which key signs the ledger?")
		}
		if s, err = ledger.ParseSigner(text); err != nil {
			err = cli.Usage("it is the key itself, and not a file; --ledger-key names a file", "FIADOR_LEDGER_KEY is %s", err)
		}
		return dir, s, err
	}
	if err := Outside(dir, f.file, "ledger"); err != nil {
		return "", nil, err
	}
	if s, err = ReadKey(f.file); err != nil {
		err = runerr.New(result.CodeUnreadable, err.Error(),
			"name the private key of the ledger, in a file that only its owner can read", runerr.Because(err))
	}
	return dir, s, err
}

// ReadKey reads a private key. Its errors name the file as other messages do.
func ReadKey(file string) (*ledger.Signer, error) {
	name := strconv.Quote(screen.Path(file))
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file") // to open a pipe would wait
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %s", name, runerr.Reason(err))
	}
	text := keyText(file)
	if _, err := ledger.ParseVerifier(text); err == nil || isPEM(text) {
		return nil, fmt.Errorf("key %s: this is the public key, and the private one is wanted", name)
	}
	s, err := disk.ReadKey(file)
	if err != nil && text != "" {
		// If the file holds no key, the permissions of the file are no fault to mend.
		if _, err := ledger.ParseSigner(text); err != nil {
			return nil, fmt.Errorf("key %s: not a private key: one begins with PRIVATE+KEY+ and is one line", name)
		}
	}
	if errors.As(err, new(*fs.PathError)) {
		return nil, fmt.Errorf("key %s: %s", name, runerr.Reason(err))
	}
	if err != nil {
		text := strings.ReplaceAll(err.Error(), strconv.Quote(file), name)
		return nil, errors.New(canon.Clean(strings.ReplaceAll(text, file, screen.Path(file))))
	}
	return s, nil
}

// keyText returns the first 4096 bytes of a file, more than any key has, without white
// space around them. It returns empty if the file cannot be read.
func keyText(file string) string {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK the open of a pipe would wait
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// VerifierKey reads the verifier key of a flag or a variable: the key itself, or a file with it. It
// refuses a private key, and says that it has to be kept secret.
func VerifierKey(flag, text string) (ledger.Verifier, error) {
	v, err := ledger.ParseVerifier(text)
	if err == nil {
		return v, nil
	}
	what := flag
	if !strings.HasPrefix(flag, "FIADOR_") {
		what = "--" + flag
	}
	if !isPrivate(text) {
		b, readErr := ReadSmall(text, ledger.MaxCheckpointBytes)
		if readErr == nil {
			what += " " + strconv.Quote(screen.Path(text))
			text = strings.TrimSpace(string(b))
			v, err = ledger.ParseVerifier(text)
		} else if _, statErr := os.Stat(text); statErr == nil || !strings.Contains(text, "+") {
			return v, readErr
		}
	}
	const printed = `"fiador ledger init" or "fiador pack keygen" printed it`
	switch {
	case err == nil:
		return v, nil
	case isPrivate(text):
		return v, cli.Unfit("keep it to yourself, and give the verifier key: "+printed, "%s is the private key", what)
	case isPEM(text):
		return v, cli.Usage(`give the line that "fiador pack keygen" printed`, "%s is a public key as PEM, and the verifier key is wanted", what)
	}
	return v, cli.Usage(printed, "%s: %s", what, err)
}

// isPrivate reports whether a text begins like a private key.
func isPrivate(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "PRIVATE+KEY+")
}

// isPEM reports whether a text begins like a public key that "fiador pack keygen --pem"
// writes.
func isPEM(text string) bool {
	return strings.HasPrefix(text, "-----BEGIN PUBLIC KEY-----")
}
