package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/lazy"
)

// Verify reads a ledger from its first line to its last. The error is a *Fault if
// something is wrong with the ledger, ErrUnknownKey if this cannot be known, and
// otherwise an error of reading.
func Verify(ctx context.Context, src io.Reader, c Check) (Verified, error) {
	v := &verifier{Check: c, runs: map[runKey]uint8{}, seen: map[leafKey]struct{}{}, open: map[runKey]begun{}}
	v.Promises = slices.SortedFunc(slices.Values(c.Promises), func(a, b Promise) int { return cmp.Compare(a.Size, b.Size) })
	if err := v.read(ctx, src); err != nil {
		return Verified{}, err
	}
	return v.end()
}

// verifier is the state after the lines so far.
type verifier struct {
	Check
	tree  Range
	torn  int64
	keys  Keys // of the records; vouched for up to the last checked line
	last  timeText
	seal  Seal // of the last line
	runs  map[runKey]uint8
	seen  map[leafKey]struct{} // of a server: the entries of runs
	again []int64              // and those that repeat one of them
	open  map[runKey]begun
	edges Edges
	due   int // the next promise to check
}

// chunk is a piece of the ledger that ends with a line.
type chunk struct {
	room   []byte // is read into
	text   []byte // the part of it that has whole lines
	torn   int64  // bytes without a line feed; then there is no text
	lines  []lineOf
	fault  error     // of the line after these lines
	start  Range     // the tree before the chunk
	keys   Keys      // of the records up to the end of the chunk
	root   tlog.Hash // of the tree after the chunk
	wrong  int       // index in lines of the first wrong line; -1
	reason error
	parsed chan struct{}
	held   chan struct{}
}

// lineOf is a line in a chunk.
type lineOf struct {
	seal  Seal
	node  tlog.Hash // its leaf; then, from grow on, the largest full subtree that the leaf ends
	entry []byte
	leaf  leafKey // of a server

	// Members of the record, if it is read.
	kind Kind
	time timeText
	run  runKey
	full *Record // nil if skim read it
}

// leafKey is the beginning of a leaf hash.
type leafKey [16]byte

// timeText is a timestamp.
type timeText [len(TimeFormat)]byte

// runKey is the hash of a run id.
type runKey [16]byte

func keyOfRun(id []byte) runKey {
	sum := sha256.Sum256(id)
	return runKey(sum[:16])
}

// read reads the record of a line.
func (l *lineOf) read() error {
	r, err := ParseRecord(l.entry)
	if err != nil {
		return err
	}
	l.kind, l.full = r.Kind, &r
	copy(l.time[:], r.Timestamp)
	l.run = keyOfRun([]byte(r.RunID))
	return nil
}

// chunkBytes is the number of bytes read at once.
const chunkBytes = 1 << 19

// read passes chunks through three steps. Workers parse lines and hash leaves. One
// goroutine builds the tree in order. Workers compare the root of every line, and the
// same goroutine takes their results in order.
func (v *verifier) read(ctx context.Context, src io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := runtime.GOMAXPROCS(0)
	work := make(chan func(), 4*workers)
	defer close(work)
	for range workers {
		go func() {
			for f := range work {
				f()
			}
		}()
	}
	pieces := make(chan *chunk, 2*workers)
	failed := make(chan error, 1)
	go func() {
		defer close(pieces)
		failed <- cut(ctx, src, func(c *chunk) bool {
			select {
			case pieces <- c:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	var parsing, holding []*chunk
	step := func(most int) error {
		for len(parsing) > most {
			c := parsing[0]
			<-c.parsed
			parsing = parsing[1:]
			v.grow(c)
			holding = append(holding, c)
			work <- func() { v.hold(c); close(c.held) }
			for len(holding) > most {
				h := holding[0]
				holding = holding[1:]
				<-h.held
				if err := v.take(h); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for c := range pieces {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		work <- func() { v.parse(c); close(c.parsed) }
		parsing = append(parsing, c)
		if err := step(workers); err != nil {
			return err
		}
	}
	// This takes all chunks that are left: none is held unless others are parsed.
	if err := step(0); err != nil {
		return err
	}
	if err := <-failed; err != nil {
		return err
	}
	return ctx.Err()
}

// cut cuts a text into chunks of whole lines.
func cut(ctx context.Context, src io.Reader, emit func(*chunk) bool) error {
	c, rest := newChunk(), 0
	for {
		n, err := io.ReadFull(src, c.room[rest:rest+chunkBytes])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		text := c.room[:rest+n]
		end := bytes.LastIndexByte(text, '\n') + 1
		next := newChunk()
		rest = copy(next.room, text[end:])
		if c.text = text[:end]; end > 0 && !emit(c) {
			return ctx.Err()
		}
		c = next
		switch {
		case rest > MaxTornBytes:
			c.fault = errEndless.Get()
			emit(c)
			return nil
		case last && rest == 0:
			return nil
		case last:
			c.torn = int64(rest)
			emit(c)
			return nil
		}
	}
}

var errEndless = lazy.Value[error]{Make: func() error {
	return fmt.Errorf("more than %d bytes without a line feed: no line has so many, and no interrupted append leaves them", MaxTornBytes)
}}

// chunks are the chunks that were taken. newChunk uses their memory again.
var chunks = sync.Pool{New: func() any { return &chunk{room: make([]byte, MaxTornBytes+chunkBytes)} }}

func newChunk() *chunk {
	c := chunks.Get().(*chunk)
	*c = chunk{room: c.room, lines: c.lines[:0], wrong: -1, parsed: make(chan struct{}), held: make(chan struct{})}
	return c
}

// parse reads the lines of a chunk.
func (v *verifier) parse(c *chunk) {
	for text := c.text; len(text) > 0; {
		end := bytes.IndexByte(text, '\n')
		b := text[:end]
		text = text[end+1:]
		l := lineOf{}
		if v.Unsealed {
			l.node, l.entry = LeafHash(b), b
			l.leaf = leafKey(l.node[:])
		} else {
			at := 0
			if l.seal, at, c.fault = parseSeal(b); c.fault != nil {
				return
			}
			// The two bytes before the members end the seal. They are replaced by the zero
			// of a leaf and the brace that begins the entry.
			b[at-2], b[at-1] = 0, '{'
			l.node, l.entry = sha256.Sum256(b[at-2:]), b[at-1:]
		}
		switch {
		case v.Quick && !special(l.entry):
		case !v.Quick && v.Entry == nil && l.skim():
		default:
			if c.fault = l.read(); c.fault != nil {
				return
			}
		}
		c.lines = append(c.lines, l)
	}
}

// grow adds the leaves of a chunk to the tree.
func (v *verifier) grow(c *chunk) {
	c.start = Range{Size: v.tree.Size, Roots: append(make([]tlog.Hash, 0, 64), v.tree.Roots...)}
	var visit func(int, int64, tlog.Hash)
	for i := range c.lines {
		l := &c.lines[i]
		if v.Tile != nil {
			visit = v.edge(c, i)
		}
		v.tree.Append(l.node, visit)
		l.node = v.tree.last()
		v.introduce(l)
		for v.due < len(v.Promises) && v.Promises[v.due].Size == v.tree.Size {
			if p := v.Promises[v.due]; v.tree.Root() != p.Root && c.reason == nil {
				c.wrong, c.reason = i, fmt.Errorf("the tree of its size %d has another root than %s", p.Size, p.Name)
			}
			v.due++
		}
	}
	c.root, c.keys = v.tree.Root(), v.keys
}

// introduce notes the key of the last record. take checks later whether the record may
// be there.
func (v *verifier) introduce(l *lineOf) {
	if !l.kind.hasKey() {
		return
	}
	if key, err := ParseVerifier(l.full.Key); err == nil {
		v.keys = append(v.keys, KeyFrom{Size: FirstSize(v.tree.Size - 1), Key: key})
	}
}

// FirstSize returns the size of the first tree that the key of a record signs. A genesis
// is signed by its own key; a rotation is signed by the key that it ends.
func FirstSize(index int64) int64 {
	if index == 0 {
		return 1
	}
	return index + 2
}

// edge collects the tiles.
func (v *verifier) edge(c *chunk, i int) func(int, int64, tlog.Hash) {
	return func(level int, n int64, h tlog.Hash) {
		if level%TileHeight != 0 {
			return
		}
		if err := v.edges.Add(level/TileHeight, n, h, v.Tile); err != nil && c.reason == nil {
			c.wrong, c.reason = i, err
		}
	}
}

// hold compares the seals of a chunk with the tree.
func (v *verifier) hold(c *chunk) {
	if v.Unsealed {
		return
	}
	if v.Quick && !v.Seals {
		if len(c.lines) > 0 {
			v.quick(c)
		}
		return
	}
	v.compare(c)
}

// compare compares the seals of a chunk with the tree, one by one.
func (v *verifier) compare(c *chunk) {
	tree := c.start
	for i := range c.lines {
		l := &c.lines[i]
		if c.wrong >= 0 && i > c.wrong {
			return
		}
		tree.appendLast(l.node)
		switch {
		case l.seal.Size != tree.Size:
			c.wrong, c.reason = i, errMoved(l.seal)
			return
		case l.seal.Root != tree.Root():
			c.wrong, c.reason = i, errors.New("its seal does not have the root of the tree: the entry or its seal was changed")
			return
		case !v.Seals:
			continue
		}
		if err := c.keys.CheckSeal(l.seal); err != nil {
			c.wrong, c.reason = i, fmt.Errorf("its seal: %w", err)
			return
		}
	}
}

// CheckSeal checks the signature of a seal by the key of its size.
func (k Keys) CheckSeal(s Seal) error {
	key, ok := k.At(s.Size)
	if !ok {
		return ErrUnknownKey
	}
	return key.CheckSeal(s)
}

// quick compares the sizes of the seals of a chunk and the root of the last. If these
// differ, quick finds the first wrong line.
func (v *verifier) quick(c *chunk) {
	wrong := c.reason != nil || c.lines[len(c.lines)-1].seal.Root != c.root
	for i := range c.lines {
		wrong = wrong || c.lines[i].seal.Size != c.start.Size+int64(i)+1
	}
	if wrong {
		v.compare(c)
	}
}

func errMoved(s Seal) error {
	return fmt.Errorf("its seal is that of entry %d: entries were added, removed or moved", s.Size-1)
}

// take takes the results of a chunk, in the order of the ledger. Nobody may use the chunk
// after it.
func (v *verifier) take(c *chunk) error {
	v.torn = c.torn
	for i := range c.lines {
		l := &c.lines[i]
		index := c.start.Size + int64(i)
		if i == c.wrong {
			return faultAt(index, c.reason)
		}
		if err := v.record(index, l); err != nil {
			return err
		}
		v.seal = l.seal
	}
	size := c.start.Size + int64(len(c.lines))
	if c.fault != nil {
		return faultAt(size, c.fault)
	}
	if v.Progress != nil {
		v.Progress(size)
	}
	chunks.Put(c)
	return nil
}

// faultAt returns a fault of an entry, unless the key is unknown.
func faultAt(index int64, err error) error {
	if errors.Is(err, ErrUnknownKey) {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	return &Fault{Index: index, What: err.Error()}
}

// special says whether a record has a kind that is always read.
func special(entry []byte) bool {
	i := bytes.Index(entry, kindMember)
	if i < 0 {
		return true
	}
	k := entry[i+len(kindMember):]
	return !bytes.HasPrefix(k, decisionStart) && !bytes.HasPrefix(k, errorStart)
}

// runOf returns the run id of a record that is not read in detail.
func runOf(entry []byte) []byte {
	_, rest, _ := bytes.Cut(entry, runMember)
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return id
}

var (
	runMember     = []byte(`"run_id":"`)
	kindMember    = []byte(`"kind":"`)
	decisionStart = []byte(`decision"`)
	errorStart    = []byte(`error"`)
)

// begun is the beginning of a run whose end was not yet seen.
type begun struct {
	index  int64
	record *Record
}

// record handles a record: keys and open runs always, the rest if wanted.
func (v *verifier) record(index int64, l *lineOf) error {
	if l.kind == "" && index > 0 { // a decision or an error that is not read in detail
		if len(v.open) > 0 {
			delete(v.open, keyOfRun(runOf(l.entry)))
		}
		return nil
	}
	if err := v.key(index, l); err != nil {
		return faultAt(index, err)
	}
	if v.repeats(index, l) {
		return nil
	}
	switch {
	case l.kind == KindBegun:
		v.open[l.run] = begun{index, l.full}
	case l.kind.Ends():
		if b, ok := v.open[l.run]; ok {
			r, err := ParseRecord(l.entry)
			if err == nil && !r.EndOf(*b.record) {
				err = fmt.Errorf("its run %q began as another one, in entry %d", r.RunID, b.index)
			}
			if err != nil {
				return faultAt(index, err)
			}
			delete(v.open, l.run)
		}
	}
	if !v.Quick {
		if err := v.story(l); err != nil {
			return faultAt(index, err)
		}
	}
	if v.Entry != nil {
		return v.Entry(index, *l.full)
	}
	return nil
}

// repeats says whether a record of a server repeats an earlier one byte for byte. A server
// that lost its right to write may have had a record under way that the next one added too.
// The repeat says nothing new, so it is no fault.
func (v *verifier) repeats(index int64, l *lineOf) bool {
	if !v.Unsealed || v.Quick || !l.kind.OfRun() {
		return false
	}
	if _, ok := v.seen[l.leaf]; ok {
		v.again = append(v.again, index)
		return true
	}
	v.seen[l.leaf] = struct{}{}
	return false
}

// key adds the key of a record. The key before it vouches for it with the record's seal.
func (v *verifier) key(index int64, l *lineOf) error {
	switch {
	case (index == 0) != (l.kind == KindGenesis):
		return errors.New("a genesis is the first entry, and no other")
	case !l.kind.hasKey():
		return nil
	}
	key, err := ParseVerifier(l.full.Key)
	if err != nil {
		return err
	}
	size := FirstSize(index)
	switch genesis := v.keys[0].Key; {
	case index == 0 && key.Origin() != l.full.Origin, key.Origin() != genesis.Origin():
		return errors.New("its key is not one of the ledger's origin")
	case index > 0 && len(v.Keys) > 0 && size > v.Keys[len(v.Keys)-1].Size:
		// A rotation was interrupted, or is running: origin.json is written after it.
	default:
		if known, ok := v.Keys.At(size); !ok || known.String() != key.String() {
			return fmt.Errorf("its key is not the one that the ledger says signs from size %d on", size)
		}
	}
	if v.Unsealed {
		return nil
	}
	if err := v.keys.CheckSeal(l.seal); err != nil {
		return fmt.Errorf("its seal: %w", err)
	}
	return nil
}

// story compares a record with the records before it. Time does not go backwards. A run
// has one beginning, one end, and nothing after its end.
func (v *verifier) story(l *lineOf) error {
	if bytes.Compare(l.time[:], v.last[:]) < 0 {
		return fmt.Errorf("its time %s is before that of the entry before it", l.time[:])
	}
	v.last = l.time
	if !l.kind.OfRun() {
		return nil
	}
	const hasBegun, hasEnded = 1, 2
	state := v.runs[l.run]
	switch {
	case state == hasEnded:
		return fmt.Errorf("its run %q has ended before", runOf(l.entry))
	case l.kind.Ends():
		v.runs[l.run] = hasEnded
	case state == hasBegun:
		return fmt.Errorf("its run %q has begun before", runOf(l.entry))
	default:
		v.runs[l.run] = hasBegun
	}
	return nil
}

// end does the checks that need the whole ledger.
func (v *verifier) end() (Verified, error) {
	size := v.tree.Size
	out := Verified{Size: size, Root: v.tree.Root(), Torn: v.torn, Keys: v.keys, Repeats: v.again}
	for _, b := range v.open {
		out.Open = append(out.Open, OpenRun{RunID: b.record.RunID, Index: b.index})
	}
	slices.SortFunc(out.Open, func(a, b OpenRun) int { return cmp.Compare(a.Index, b.Index) })
	if v.due < len(v.Promises) {
		p := v.Promises[v.due]
		return out, &Fault{Index: size, What: fmt.Sprintf("it is missing: %s has %d entries (TRUNCATED)", p.Name, p.Size)}
	}
	if size == 0 {
		return out, &Fault{Index: 0, What: "there is no genesis"}
	}
	for _, k := range v.Keys {
		if !slices.ContainsFunc(v.keys, func(o KeyFrom) bool { return o.Size == k.Size }) {
			return out, &Fault{Index: -1, What: fmt.Sprintf("no record vouches for the key that the ledger says signs from size %d on", k.Size)}
		}
	}
	if err := v.keys.CheckSeal(v.seal); !v.Unsealed && err != nil {
		return out, faultAt(size-1, fmt.Errorf("its seal: %w", err))
	}
	// The key that a rotation names has not yet signed anything. The writer of a ledger
	// can name any key there.
	trusts := func(k KeyFrom) bool { return k.Key.String() == v.Trusted.String() && k.Size <= size }
	if v.Trusted != nil && !slices.ContainsFunc(v.keys, trusts) {
		return out, fmt.Errorf("%w: %s has signed nothing here", ErrUnknownKey, v.Trusted)
	}
	return out, nil
}
