package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// CheckOrigin says what is wrong with the name of a log. A name has 1 to 128 printable
// ASCII characters, without blank, plus, quote and backslash. It must differ from every
// name of seals and acks.
func CheckOrigin(origin string) error {
	if origin == "" || len(origin) > 128 {
		return errors.New("an origin has 1 to 128 characters")
	}
	for i := range len(origin) {
		if c := origin[i]; c <= 0x20 || c > 0x7e || strings.IndexByte(`+"\`, c) >= 0 {
			return errors.New("an origin is printable ASCII without blank, plus, quote and backslash")
		}
	}
	for _, suffix := range []string{sealSuffix, ackSuffix} {
		if strings.HasSuffix(origin, suffix) {
			return errors.New("an origin does not end with " + suffix)
		}
	}
	return nil
}

// The suffixes separate the notes of seals and acks from those of checkpoints, so that
// nobody can present a seal or an ack as a checkpoint.
const (
	sealSuffix = "/seal"
	ackSuffix  = "/ack"
)

// GenerateKey makes the key of a log: the private key signs, and the verifier key
// checks.
func GenerateKey(rand io.Reader, origin string) (private, verifier string, err error) {
	if err := CheckOrigin(origin); err != nil {
		return "", "", err
	}
	return note.GenerateKey(rand, origin)
}

// Signer signs the seals and checkpoints of one log.
type Signer struct {
	signer note.Signer
	key    Verifier
}

// ParseSigner reads a private key from GenerateKey. Its errors do not contain the key.
func ParseSigner(private string) (*Signer, error) {
	s, v, err := parseSigningKey(strings.TrimSpace(private))
	if err != nil {
		return nil, err
	}
	return &Signer{signer: s, key: v}, nil
}

// Origin returns the name of the log that the key signs for.
func (s *Signer) Origin() string { return s.signer.Name() }

// Verifier returns the key that checks the signatures of s.
func (s *Signer) Verifier() Verifier { return s.key }

// NoteSigner returns the key for a server that signs the checkpoints of its log itself.
func (s *Signer) NoteSigner() note.Signer { return s.signer }

// Seal signs the seal of a tree.
func (s *Signer) Seal(size int64, root tlog.Hash) (Seal, error) {
	seal := Seal{Root: root, Size: size}
	sig, err := s.signer.Sign(treeText(s.Origin()+sealSuffix, size, root))
	if err != nil || len(sig) != 64 {
		return Seal{}, fmt.Errorf("the seal could not be signed: %w", err)
	}
	binary.BigEndian.PutUint32(seal.Sig[:], s.signer.KeyHash())
	copy(seal.Sig[4:], sig)
	return seal, nil
}

// Checkpoint signs a checkpoint: the promise that the log has these entries and will
// never have others in their place.
func (s *Signer) Checkpoint(size int64, root tlog.Hash) (Checkpoint, error) {
	text, err := note.Sign(&note.Note{Text: string(treeText(s.Origin(), size, root))}, s.signer)
	return Checkpoint{Origin: s.Origin(), Size: size, Root: root, Note: text}, err
}

// Note returns the seal as a signed note of the log of an origin.
func (s Seal) Note(origin string) []byte {
	b := append(treeText(origin+sealSuffix, s.Size, s.Root), "\n— "+origin+" "...)
	return append(base64.StdEncoding.AppendEncode(b, s.Sig[:]), '\n')
}

func treeText(origin string, size int64, root tlog.Hash) []byte {
	b := append([]byte(origin), '\n')
	b = append(strconv.AppendInt(b, size, 10), '\n')
	return append(base64.StdEncoding.AppendEncode(b, root[:]), '\n')
}

// Verifier is a key that checks signatures.
type Verifier struct {
	verifier note.Verifier
	text     string
}

// ParseVerifier reads a verifier key: NAME+HASH+BASE64, in the form of C2SP signed-note.
func ParseVerifier(text string) (Verifier, error) {
	v, err := note.NewVerifier(text)
	if err != nil {
		return Verifier{}, errors.New("not a verifier key: it is NAME+HASH+KEY in one line")
	}
	if err := CheckOrigin(v.Name()); err != nil {
		return Verifier{}, err
	}
	// One key has exactly one spelling, because keys are compared as texts.
	parts := strings.SplitN(text, "+", 3)
	var key [1 + ed25519.PublicKeySize]byte
	if rest, ok := exactly([]byte(parts[2]), key[:]); !ok || len(rest) > 0 || parts[1] != fmt.Sprintf("%08x", v.KeyHash()) {
		return Verifier{}, errors.New("not a verifier key: its hash is in lower-case hex and its key in base64 without spare bits")
	}
	return Verifier{verifier: v, text: text}, nil
}

// String returns the key in the form that ParseVerifier reads.
func (v Verifier) String() string { return v.text }

// Origin returns the name of the log that the key belongs to.
func (v Verifier) Origin() string { return v.verifier.Name() }

// Errors about signatures. With an unknown key, the signature may be right or wrong. A
// bad signature of a known key is wrong.
var (
	ErrUnknownKey   = errors.New("signed with a key that is not known")
	ErrBadSignature = errors.New("the signature of a known key is not right")
)

// CheckSeal checks the signature of a seal.
func (v Verifier) CheckSeal(s Seal) error {
	if binary.BigEndian.Uint32(s.Sig[:]) != v.verifier.KeyHash() {
		return ErrUnknownKey
	}
	if !v.verifier.Verify(treeText(v.Origin()+sealSuffix, s.Size, s.Root), s.Sig[4:]) {
		return ErrBadSignature
	}
	return nil
}

// Keys are the keys of a log: each signs trees from one size on, until the next key.
type Keys []KeyFrom

// KeyFrom is a key and the size of the first tree that it signs.
type KeyFrom struct {
	Size int64
	Key  Verifier
	// Note is the seal or the checkpoint, signed by the key before, of the tree that ends
	// with the record that names the key. It is empty in a folder, whose lines have seals.
	Note []byte
}

// Vouches says whether a note is a checkpoint or a seal of a tree, and is signed by the key.
func (v Verifier) Vouches(msg []byte, size int64, root tlog.Hash) bool {
	n, err := note.Open(msg, note.VerifierList(v.verifier))
	return err == nil && (n.Text == string(treeText(v.Origin(), size, root)) || n.Text == string(treeText(v.Origin()+sealSuffix, size, root)))
}

// At returns the key that signs a tree of a size.
func (k Keys) At(size int64) (Verifier, bool) {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i].Size <= size {
			return k[i].Key, true
		}
	}
	return Verifier{}, false
}

// Checkpoint is a tree of a log, signed by the log's key.
type Checkpoint struct {
	Origin string    `json:"origin"`
	Size   int64     `json:"size"`
	Root   tlog.Hash `json:"root"`
	Note   []byte    `json:"-"` // the whole note, with signatures of witnesses
}

// MaxCheckpointBytes is the maximum size of a checkpoint, with all signatures of
// witnesses.
const MaxCheckpointBytes = 64 << 10

// All errors about the form of a checkpoint wrap ErrCheckpoint.
var ErrCheckpoint = errors.New("not a checkpoint")

// ParseCheckpoint reads a checkpoint without checking its signatures.
func ParseCheckpoint(msg []byte) (Checkpoint, error) {
	bad := func(what string) (Checkpoint, error) { return Checkpoint{}, fmt.Errorf("%w: %s", ErrCheckpoint, what) }
	lines, what := noteLines(msg)
	if what != "" {
		return bad(what)
	}
	if len(lines) != 3 {
		return bad("its text has three lines: origin, size and root")
	}
	c := Checkpoint{Origin: lines[0], Note: bytes.Clone(msg)}
	if err := CheckOrigin(c.Origin); err != nil {
		return bad(err.Error())
	}
	var ok bool
	if c.Size, ok = wholeNumber(lines[1]); !ok {
		return bad("its second line is not the size of a tree")
	}
	if rest, ok := exactly([]byte(lines[2]), c.Root[:]); !ok || len(rest) > 0 {
		return bad("its third line is not a hash in base64")
	}
	return c, nil
}

// noteLines returns the lines of a note's text, or what is wrong with the form of the note.
func noteLines(msg []byte) (lines []string, wrong string) {
	if len(msg) > MaxCheckpointBytes {
		return nil, "too long"
	}
	body, sigs, ok := bytes.Cut(msg, []byte("\n\n"))
	if !ok || !bytes.HasPrefix(sigs, []byte("— ")) || bytes.Contains(sigs, []byte("\n\n")) {
		return nil, "it is a text, an empty line and signatures"
	}
	return strings.Split(string(body), "\n"), ""
}

// wholeNumber reads a number from 0 to canon.MaxSafeInteger in its one spelling.
func wholeNumber(text string) (int64, bool) {
	s := scanner{text: text}
	n, ok := s.number()
	return n, ok && s.at == len(text)
}

// OpenCheckpoint reads a checkpoint and checks the signature by the log's key for its
// size.
func (k Keys) OpenCheckpoint(msg []byte) (Checkpoint, error) {
	c, err := ParseCheckpoint(msg)
	if err != nil {
		return Checkpoint{}, err
	}
	if err := k.signed("checkpoint", ErrCheckpoint, msg, c.Origin, c.Size); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// signed says whether the key of an origin for a size has signed a note. what the note is and
// the error about its form are for its errors.
func (k Keys) signed(what string, form error, msg []byte, origin string, size int64) error {
	err := ErrUnknownKey
	if key, ok := k.At(size); ok && key.Origin() == origin {
		_, err = note.Open(msg, note.VerifierList(key.verifier))
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*note.UnverifiedNoteError)):
		err = ErrUnknownKey
	case errors.As(err, new(*note.InvalidSignatureError)):
		err = ErrBadSignature
	case !errors.Is(err, ErrUnknownKey):
		return fmt.Errorf("%w: %s", form, err)
	}
	return fmt.Errorf("%s of %q: %w", what, origin, err)
}

// MergeCheckpoints joins two notes of one checkpoint. The result has the signatures of
// both, those of the first note first.
func MergeCheckpoints(a, b []byte) ([]byte, error) {
	ca, err := ParseCheckpoint(a)
	if err != nil {
		return nil, err
	}
	cb, err := ParseCheckpoint(b)
	if err != nil {
		return nil, err
	}
	if ca.Origin != cb.Origin || ca.Size != cb.Size || ca.Root != cb.Root {
		return nil, fmt.Errorf("%w: there is another one of that size", ErrCheckpoint)
	}
	out := bytes.Clone(a)
	_, signatures, _ := bytes.Cut(b, []byte("\n\n"))
	for line := range bytes.Lines(signatures) {
		if !bytes.Contains(out, append([]byte("\n"), line...)) {
			out = append(out, line...)
		}
	}
	if len(out) > MaxCheckpointBytes {
		return nil, fmt.Errorf("%w: too many signatures", ErrCheckpoint)
	}
	return out, nil
}
