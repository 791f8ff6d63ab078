// Package tokens has the clients of a ledger server. It owns the clients file, which has the hash
// of each client's token, and makes tokens.
package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// maxClients is the maximum size of the clients file.
const maxClients = 1 << 20

// clientsWire is the clients file.
type clientsWire struct {
	Clients []clientWire `json:"clients"`
}

type clientWire struct {
	Name   string `json:"name"`
	SHA256 string `json:"token_sha256"`
	May    string `json:"may"`
}

// Client is one that has a token.
type Client struct {
	Name      string // as the log names it, the submitter of its records
	MayAppend bool   // else it may only read
}

// Clients are found by the hash of their token. The time of a look-up tells nothing about
// a token, because nobody can choose a hash.
type Clients map[[sha256.Size]byte]Client

const tokenChars = 43 // 32 bytes as base64url without padding

// Of returns the client of a token.
func (c Clients) Of(token string) (Client, bool) {
	found, ok := c[sha256.Sum256([]byte(token))]
	return found, ok && len(token) == tokenChars
}

// Read reads the clients file.
func Read(file string) (Clients, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxClients+1))
	if err != nil {
		return nil, err
	}
	c, err := parseClients(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strconv.Quote(file), err)
	}
	return c, nil
}

func parseClients(text []byte) (Clients, error) {
	doc, err := canon.Parse(text, maxClients)
	if err != nil {
		return nil, err
	}
	var decoder canon.Decoder[clientsWire]
	wire, err := decoder.Decode(doc.Value())
	if err != nil {
		return nil, fmt.Errorf("%s; a client has name, token_sha256 and may, as fiador-ledgerd token prints them", strings.TrimPrefix(err.Error(), ": "))
	}
	if wire.Clients == nil {
		return nil, errors.New(`/clients: the list is missing; write {"clients":[]} for none`)
	}
	all, names := Clients{}, map[string]int{}
	for i, c := range wire.Clients {
		bad := func(member, format string, args ...any) (Clients, error) {
			return nil, fmt.Errorf("/clients/%d/%s: %s", i, member, fmt.Sprintf(format, args...))
		}
		if !ledger.SubmitterName(c.Name) {
			return bad("name", "%q is no name; use 1 to 64 letters, digits, '.', '_' and '-'", canon.Cut(c.Name))
		}
		if first, ok := names[c.Name]; ok {
			return bad("name", "%q is the name of /clients/%d too; give each client its own", c.Name, first)
		}
		hash := canon.ContentHash(c.SHA256)
		if !hash.Valid() {
			return bad("token_sha256", "it is not sha256: and 64 lower-case hex digits; make a token with: fiador-ledgerd token %s --may append", c.Name)
		}
		var key [sha256.Size]byte
		if _, err := hex.Decode(key[:], []byte(hash.Hex())); err != nil {
			return bad("token_sha256", "%s", err)
		}
		if other, ok := all[key]; ok {
			return bad("token_sha256", "%q has the same token; make each client its own", other.Name)
		}
		if c.May != "append" && c.May != "read" {
			return bad("may", "%q is unknown; write append or read", canon.Cut(c.May))
		}
		names[c.Name] = i
		all[key] = Client{c.Name, c.May == "append"}
	}
	return all, nil
}

// New prints a new token, and adds its client to the clients file, or shows the member
// for it if file is empty.
func New(name, may, file string, stdout, stderr io.Writer) error {
	if !ledger.SubmitterName(name) {
		return fmt.Errorf("%q is no name of a client; use 1 to 64 letters, digits, '.', '_' and '-'", name)
	}
	if may != "append" && may != "read" {
		return errors.New("--may is append or read")
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return err
	}
	token := base64.RawURLEncoding.EncodeToString(secret[:])
	member := clientWire{name, string(canon.Sum([]byte(token))), may}
	if file != "" {
		if err := addClient(file, member); err != nil {
			return err
		}
		_, err := fmt.Fprintln(stdout, token)
		return err
	}
	text, err := canon.Canonical(member)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, token); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "add to clients: %s\n", text)
	return err
}

// addClient adds a client to the clients file, or makes the file. The file is replaced as a
// whole.
func addClient(file string, member clientWire) error {
	lock, err := os.OpenFile(file+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	wire, mode := clientsWire{}, fs.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	text, err := os.ReadFile(file)
	if err == nil {
		if _, err := parseClients(text); err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(file), err)
		}
		err = json.Unmarshal(text, &wire)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	wire.Clients = append(wire.Clients, member)
	if text, err = json.MarshalIndent(wire, "", "  "); err != nil {
		return err
	}
	if _, err := parseClients(text); err != nil {
		return fmt.Errorf("%s: %w", strconv.Quote(file), err)
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Replace(root, filepath.Base(file), append(text, '\n'), mode)
}
