// Package prose finds placeholders in text, and constraints that contradict each other.
// It owns the words of both detectors.
package prose

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/text"
)

// The placeholder detector finds text that was left to be filled in:
//
//	words      TBD in any case; TBA, TBC, TODO, FIXME, XXX and the other marker
//	           words in upper case; YOUR_… in upper case with underscores
//	phrases    "lorem ipsum", "fill in here", "fill me in", and "to be decided"
//	           with its relatives where nothing says by whom or when
//	questions  three question marks or more that stand alone
//	angles     <environment>, <your-name>, <INSERT HERE>
//	braces     {{name}}, but not ${{ expression }}
//	brackets   [TBD], [insert name], [your name]
//
// The detector skips invisible characters. It reads letters and digits of full width,
// and in the styles of mathematics, as the ASCII characters that they look like.
//
// Text between back-ticks is a code sample and is skipped. ${NAME}, $NAME and %NAME%
// name a variable that has a value at run time, and {} is code: they are no
// placeholders.
//
// A marker word that is only mentioned is no placeholder. It is mentioned:
//
//   - in quotes
//   - as part of a path or of a hyphenated name
//   - behind a determiner or a verb of searching ("every TODO", "remove TODO")
//   - before a noun ("TODO comments")
//   - in a list behind a noun for such words ("placeholder text (TBD, TODO, etc)")
//   - joined by "and" or "or" to a mentioned marker word
//
// In angles, these are no placeholders:
//
//   - an element of HTML or SVG, or a name with a closing tag in the text
//   - a name that is attached to a word (List<String>)
//   - a key, a stream or a type
//   - a name in a path that begins with a slash (/users/<id>)
//   - a component in capitals and small letters (<DatePicker>); <ServiceName> is a
//     placeholder, by its last part

// WordsMentioned tells people when a marker word is only mentioned.
const WordsMentioned = `A word that is only mentioned is no placeholder: in back-ticks or quotes, in a path or a hyphenated name, behind "every" or "remove", ` +
	`before a noun ("TODO comments"), or in a list behind a word for such words ("placeholder text (TBD, TODO, etc)")`

const (
	markerWords text.Words = `CHANGEME CHANGE_ME FILLME FILL_ME FILL_ME_IN FIXME INSERT_HERE PLACEHOLDER REPLACEME
		REPLACE_ME TBA TBC TBD TODO XXX`

	// mentionBefore and mentionAfter are words that make a marker word next to them a
	// mention.
	mentionBefore text.Words = `a an any all another each every no non of old open new remaining stale existing leftover
		left-over outstanding such that the these this those without address allow avoid ban complete contain containing contains convert
		count delete fail find finish fix flag flags forbid grep list lists mark marked missing reject rejects remove removes replace replaces
		report reports resolve resolves scan search skip called comment comments label marker markers string tag word`
	mentionAfter text.Words = `api app application annotation annotations board comment comments count entries entry file files
		item items label labels line lines list lists manager marker markers note notes page report section sections
		service string strings tag tags text texts token tokens tracker tracking tree view word words`

	placeholderNouns text.Words = "marker markers placeholder placeholders"

	openVerbs   text.Words = "agreed announced decided determined"
	closedVerbs text.Words = "confirmed defined specified"
	openBefore  text.Words = "are is remain remains still yet"
	asksFor     text.Words = `allow allows ask asks cause causes expect expects for force let lets must need needs has have require
		requires to until wait waits want wants`

	bracketStarts text.Words = "insert your"
	quietBrackets text.Words = "insert fixme placeholder tba tbc tbd todo xxx ???"

	htmlElements text.Words = `a abbr acronym address animate applet area article aside audio b base bdi bdo big blink blockquote
		body br button canvas caption center circle cite clippath code col colgroup data datalist dd defs del desc
		details dfn dialog dir div dl dt ellipse em embed feblend fieldset figcaption figure filter font footer
		foreignobject form frame frameset g h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe image img input ins
		kbd label legend li line lineargradient link main map mark marker marquee mask menu meta metadata meter nav
		nobr noframes noscript object ol optgroup option output p param path pattern picture polygon polyline portal
		pre progress q radialgradient rect rp rt ruby s samp script search section select slot small source span stop
		strike strong style sub summary sup svg switch symbol table tbody td template textarea textpath tfoot th thead
		time title tr track tspan tt u ul use var video view wbr xml xmp`
	htmlFlags text.Words = `allowfullscreen async autofocus autoplay checked controls default defer disabled formnovalidate
		hidden inert ismap itemscope loop multiple muted nomodule novalidate open playsinline readonly required
		reversed selected`

	// angleOther are keys, streams, types and other words that programs and their
	// output write in angles.
	angleOther text.Words = `alt backspace bool boolean bom bs c-c c-d c-r c-w c-x char cmd cr ctrl del delete double down empty end enter eof
		eot esc escape f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 float home insert int lambda leader left lf long meta
		module nil none null object pagedown pageup redacted return right shift space stderr stdin stdout tab undefined
		up void anonymous abstract actor enumeration extend include interface`
	angleBefore text.Words = "component element header hit import include press tag"
	angleAfter  text.Words = "component components element elements markup"
	singles     text.Words = "n x y z"

	// nameParts are last parts of a name in capitals and small letters that stands for
	// a value. yourParts are first parts of such a name.
	nameParts text.Words = `account address branch bucket city class cluster company command country date day directory
		domain email environment env file filename folder here host hostname id image key language month name namespace
		number organisation organization owner password path placeholder port project region repo repository secret
		service team text time title token type uri url user username value version year zone`
	yourParts text.Words = "insert my your"
)

const maxPlaceholder = 80

// Placeholders returns the distinct placeholder texts in s, in order of appearance.
func Placeholders(s string) []string {
	f := finder{original: s}
	f.text, f.at = text.PlainText(maskCode(s))
	f.closed = closingTags(f.text)
	for f.i < len(f.text) {
		switch c := f.text[f.i]; {
		case c == '<':
			f.angle()
		case c == '{':
			f.braces()
		case c == '[':
			f.bracket()
		case c == '?':
			f.questions()
		case wordByte(c):
			f.word()
		default:
			f.i++
		}
	}
	return f.found
}

// wordByte says whether c is part of a word. Every byte of a character outside ASCII is
// part of a word.
func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

// maskCode returns s with each code sample replaced by control characters of the same
// length. A code sample is the text between matching runs of back-ticks, with the runs.
func maskCode(s string) string {
	if !strings.Contains(s, "`") {
		return s
	}
	type run struct{ at, length int }
	var runs []run
	for i := 0; i < len(s); i++ {
		if s[i] != '`' {
			continue
		}
		start := i
		for i < len(s) && s[i] == '`' {
			i++
		}
		runs = append(runs, run{start, i - start})
	}
	closing := make([]int, len(runs))
	last := map[int]int{}
	for k, r := range slices.Backward(runs) {
		closing[k] = -1
		if c, ok := last[r.length]; ok {
			closing[k] = c
		}
		last[r.length] = k
	}
	masked := []byte(s)
	for k := 0; k < len(runs); k++ {
		if closing[k] < 0 {
			continue
		}
		to := runs[closing[k]]
		for i := runs[k].at; i < to.at+to.length; i++ {
			masked[i] = 1
		}
		k = closing[k]
	}
	return string(masked)
}

// closingTags returns the names that s closes ("</name") and the names that close
// themselves ("<name/>"), in lower case.
func closingTags(s string) map[string]bool {
	var names map[string]bool
	for i := 0; i < len(s); i++ {
		if s[i] != '<' {
			continue
		}
		start := i + 1
		closes := start < len(s) && s[start] == '/'
		if closes {
			start++
		}
		end := start
		for end < len(s) && end-start < maxPlaceholder && (wordByte(s[end]) || s[end] == '-' || s[end] == '.') {
			end++
		}
		if closes || strings.HasPrefix(strings.TrimLeft(s[end:min(len(s), end+3)], " "), "/>") {
			if names == nil {
				names = map[string]bool{}
			}
			names[strings.ToLower(s[start:end])] = true
		}
	}
	return names
}

// finder reads a text once, from start to end.
type finder struct {
	text, original string
	at             []int // for each byte of text, its position in original; nil if equal
	i              int
	closed         map[string]bool
	found          []string
	seen           map[string]bool

	// The last marker word: its end, and whether it was mentioned.
	markerEnd int
	mentioned bool
}

// add notes the placeholder between two positions, and reads on behind it. Equal texts are
// noted once.
func (f *finder) add(from, to int) {
	text := f.source(from, to)
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	if !f.seen[text] {
		f.seen[text] = true
		f.found = append(f.found, text)
	}
	f.i = to
}

// source returns the original of a part of the text that is not empty.
func (f *finder) source(from, to int) string {
	if f.at == nil {
		return f.original[from:to]
	}
	last := f.at[to-1]
	size := 1
	if r, n := utf8.DecodeRuneInString(f.original[last:]); text.PlainRune(r) != r {
		size = n
	}
	return f.original[f.at[from] : last+size]
}

func (f *finder) before(i int) byte {
	if i <= 0 {
		return ' '
	}
	return f.text[i-1]
}

func (f *finder) after(i int) byte {
	if i >= len(f.text) {
		return ' '
	}
	return f.text[i]
}

// questions finds "???" that is not attached to a word. "Why???" is an exclamation, and
// "???.txt" is a pattern.
func (f *finder) questions() {
	start := f.i
	for f.i < len(f.text) && f.text[f.i] == '?' {
		f.i++
	}
	end := f.i
	prev, next := f.before(start), f.after(end)
	if end-start < 3 || wordByte(prev) || wordByte(next) || strings.IndexByte(`*/\!`, prev) >= 0 ||
		strings.IndexByte(`*/\!`, next) >= 0 || next == '.' && wordByte(f.after(end+1)) || prev == '.' {
		return
	}
	f.add(start, start+3)
	f.i = end
}

// braces finds {{name}} of at most maxPlaceholder bytes.
func (f *finder) braces() {
	start := f.i
	f.i++
	if f.after(start+1) != '{' || f.before(start) == '$' {
		if f.before(start) == '$' {
			f.i = start + 2
		}
		return
	}
	body := f.text[start+2 : min(len(f.text), start+maxPlaceholder)]
	end := strings.Index(body, "}}")
	if end < 0 {
		return
	}
	name := strings.Trim(body[:end], " ")
	if name == "" || !wordByte(name[0]) || name[0] >= '0' && name[0] <= '9' {
		return
	}
	for i := range len(name) {
		if c := name[i]; !wordByte(c) && c != '-' && c != '.' && c != ' ' {
			return
		}
	}
	f.add(start, start+2+end+2)
}

// bracket finds [TBD], [insert name] and the like. A link, "[text](address)", is none.
func (f *finder) bracket() {
	start := f.i
	f.i++
	body := f.text[start+1 : min(len(f.text), start+maxPlaceholder)]
	end := strings.IndexAny(body, "]\n[")
	if end < 0 || body[end] != ']' {
		return
	}
	prev, next := f.before(start), f.after(start+end+2)
	if wordByte(prev) || prev == ')' || prev == ']' || strings.IndexByte("([:", next) >= 0 {
		return
	}
	content := strings.ToLower(strings.TrimSpace(body[:end]))
	if content == "" {
		return
	}
	first, _, more := strings.Cut(content, " ")
	if quietBrackets.Has(content) || more && (bracketStarts.Has(first) || strings.HasPrefix(content, "fill in") ||
		strings.HasPrefix(content, "enter your ") || strings.HasPrefix(content, "add your ")) ||
		strings.HasPrefix(content, "to be ") && (openVerbs+" "+closedVerbs).Has(content[len("to be "):]) {
		f.add(start, start+end+2)
	}
}

// angle finds <your-name> and the like, unless the words around it speak of an element.
func (f *finder) angle() {
	start := f.i
	f.i++
	body := f.text[start+1 : min(len(f.text), start+maxPlaceholder)]
	end := strings.IndexAny(body, "><\n")
	if end <= 0 || body[end] != '>' {
		return
	}
	prev := f.before(start)
	if wordByte(prev) || prev == ')' || prev == ']' || prev == '<' && f.after(start+end+2) != '>' ||
		f.inRoute(start) {
		return
	}
	if f.isName(body[:end]) && !angleBefore.Has(f.wordBefore(start)) && !angleAfter.Has(f.wordAfter(start+end+2)) {
		f.add(start, start+end+2)
	}
}

// inRoute says whether i is in a path that begins with a slash. Paths of an intent are
// relative, so such a path is the pattern of a URL ("/users/<id>").
func (f *finder) inRoute(i int) bool {
	head := f.text[max(0, i-maxPlaceholder):i]
	head = head[strings.LastIndexAny(head, " \t\n\"'(,")+1:]
	return strings.HasPrefix(head, "/")
}

// isName says whether the content of angles is a name to be replaced by a value.
func (f *finder) isName(name string) bool {
	letters := strings.TrimSuffix(strings.TrimSuffix(name, "..."), "…")
	if letters == "" || strings.HasSuffix(letters, " ") {
		return false
	}
	for i, r := range letters {
		if !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) && !strings.ContainsRune(" _-./'", r)) {
			return false
		}
	}
	lower := strings.ToLower(letters)
	first, rest, many := strings.Cut(lower, " ")
	if many {
		second, _, _ := strings.Cut(rest, " ")
		return len(first) > 1 && !strings.Contains(rest, "and ") && !(htmlElements.Has(first) && htmlFlags.Has(second)) && !f.closed[first]
	}
	if f.closed[lower] || strings.HasSuffix(lower, "/") || angleOther.Has(lower) || htmlElements.Has(lower) {
		return false
	}
	if len(lower) == 1 {
		return singles.Has(lower)
	}
	if ext := lower[max(0, strings.LastIndexByte(lower, '.')):]; ext == ".h" || ext == ".hpp" || ext == ".hxx" || ext == ".hh" {
		return false
	}
	return !isComponent(letters)
}

// isComponent says whether a name begins with a capital, goes on with small letters,
// and has no part that stands for a value.
func isComponent(name string) bool {
	if name[0] < 'A' || name[0] > 'Z' || strings.ContainsAny(name, "_-/' ") || strings.ToUpper(name) == name {
		return false
	}
	starts := []int{0}
	for i := 1; i < len(name); i++ {
		if upper := name[i] >= 'A' && name[i] <= 'Z'; upper && (name[i-1] < 'A' || name[i-1] > 'Z') || name[i-1] == '.' {
			starts = append(starts, i)
		}
	}
	last := strings.ToLower(name[starts[len(starts)-1]:])
	if nameParts.Has(last) {
		return false
	}
	return len(starts) == 1 || !yourParts.Has(strings.ToLower(name[:starts[1]]))
}

// word reads one word, and the rest of a phrase that begins with the word.
func (f *finder) word() {
	start := f.i
	for f.i < len(f.text) && wordByte(f.text[f.i]) {
		f.i++
	}
	text := f.text[start:f.i]
	if len(text) > maxPlaceholder {
		return
	}
	// In "TBD…" the mark is no part of the word.
	bare := strings.TrimRightFunc(text, isMark)
	end := start + len(bare)
	start += len(bare)
	text = strings.TrimLeftFunc(bare, isMark)
	start -= len(text)
	switch {
	case isMarker(text):
		f.marker(start, end)
	case strings.EqualFold(text, "lorem"):
		if end, ok := f.follow(f.i, "ipsum"); ok && !mentionBefore.Has(f.wordBefore(start)) && !f.quoted(start, end) {
			f.add(start, end)
		}
	case strings.EqualFold(text, "fill"):
		if end, ok := f.follow(f.i, "in", "here"); ok {
			f.add(start, end)
		} else if end, ok := f.follow(f.i, "me", "in"); ok {
			f.add(start, end)
		}
	case strings.EqualFold(text, "to"):
		if end, ok := f.follow(f.i, "be"); ok {
			f.toBe(start, end)
		}
	}
}

// isMark says whether r is punctuation or a symbol outside ASCII.
func isMark(r rune) bool {
	return r >= utf8.RuneSelf && (unicode.IsPunct(r) || unicode.IsSymbol(r)) && r != utf8.RuneError
}

func isMarker(w string) bool {
	if rest, ok := strings.CutPrefix(w, "YOUR_"); ok {
		return rest != "" && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
	}
	return markerWords.Has(w) || len(w) == 3 && strings.EqualFold(w, "tbd")
}

// marker notes a marker word, unless the word is only mentioned.
func (f *finder) marker(start, end int) {
	prev, next := f.before(start), f.after(end)
	attached := strings.IndexByte(`/\.-@#$%&~`, prev) >= 0 || strings.IndexByte(`/\-@`, next) >= 0 ||
		next == '.' && wordByte(f.after(end+1)) || next == '=' || next == '%'
	mentioned := attached || f.quoted(start, end) || mentionAfter.Has(f.wordAfter(end))
	before := f.wordBefore(start)
	switch {
	case mentionBefore.Has(before):
		mentioned = true
	case before == "and" || before == "or":
		mentioned = mentioned || f.markerEnd > 0 && f.mentioned && start-f.markerEnd <= 6
	case before == "" && prev == ' ' && f.markerEnd > 0 && f.mentioned && start-f.markerEnd == 2:
		mentioned = true // "TODO, FIXME"
	case prev == '(':
		mentioned = mentioned || f.namesMarkers(start-1)
	}
	// "Find TODO and FIXME": both words are mentioned.
	f.markerEnd, f.mentioned = end, mentioned
	if !mentioned {
		f.add(start, end)
	}
}

// namesMarkers says whether the parenthesis at i follows a noun for marker words:
// "placeholders (TBD)", "placeholder text (TBD, TODO)".
func (f *finder) namesMarkers(i int) bool {
	word := f.wordBefore(i)
	return placeholderNouns.Has(word) ||
		mentionAfter.Has(word) && placeholderNouns.Has(f.wordBefore(strings.LastIndex(f.text[:i], " ")-len(word)))
}

func (f *finder) quoted(start, end int) bool {
	head, tail := f.text[max(0, start-3):start], f.text[end:min(len(f.text), end+3)]
	for _, q := range []string{`"`, "'", "“", "”", "‘", "’", "«", "»", "„"} {
		if strings.HasSuffix(head, q) {
			return strings.ContainsAny(tail, `"'“”‘’«»:`)
		}
	}
	return false
}

// toBe checks "to be" and the verb behind it. "Decided" and its like count behind at
// most three words of a clause that asks for nothing, or in the places where "defined"
// counts. "Defined" and its like count only behind a verb of being or a mark.
func (f *finder) toBe(start, end int) {
	at := end
	for at < len(f.text) && f.text[at] == ' ' && at < end+3 {
		at++
	}
	stop := at
	for stop < len(f.text) && wordByte(f.text[stop]) && stop-at < 12 {
		stop++
	}
	verb := strings.ToLower(f.text[at:stop])
	open := openVerbs.Has(verb)
	if !open && !closedVerbs.Has(verb) {
		return
	}
	head := strings.TrimRight(f.text[max(0, start-120):start], " ")
	strong := head == "" || strings.IndexByte("([:-=,\n", head[len(head)-1]) >= 0 ||
		strings.HasSuffix(head, "–") || strings.HasSuffix(head, "—") || openBefore.Has(f.wordBefore(start))
	if !strong && !(open && shortClause(head)) {
		return
	}
	next := strings.TrimLeft(f.text[stop:min(len(f.text), stop+3)], " ")
	ends := next == "" || strings.IndexByte(".;:)]!?\n", next[0]) >= 0 || strong && next[0] == ',' ||
		text.Words("later soon").Has(f.wordAfter(stop))
	if ends {
		f.add(start, stop)
	}
}

func shortClause(head string) bool {
	if i := strings.LastIndexAny(head, ".;:\n("); i >= 0 {
		head = head[i+1:]
	}
	list := strings.Fields(strings.ToLower(head))
	return len(list) <= 3 && !slices.ContainsFunc(list, asksFor.Has)
}

// follow returns the end of the given words if they follow at i.
func (f *finder) follow(i int, list ...string) (int, bool) {
	for _, w := range list {
		gap := i
		for i < len(f.text) && (f.text[i] == ' ' || f.text[i] == '\n') && i-gap < 3 {
			i++
		}
		if i == gap || len(f.text)-i < len(w) || !strings.EqualFold(f.text[i:i+len(w)], w) || wordByte(f.after(i+len(w))) {
			return 0, false
		}
		i += len(w)
	}
	return i, true
}

// wordBefore returns, in lower case, the word that one or more spaces separate from i,
// or "".
func (f *finder) wordBefore(i int) string {
	end := i
	for end > 0 && f.text[end-1] == ' ' && i-end < 3 {
		end--
	}
	start := end
	for start > 0 && (wordByte(f.text[start-1]) || f.text[start-1] == '-') && end-start < 16 {
		start--
	}
	if end == i {
		return ""
	}
	return strings.ToLower(f.text[start:end])
}

func (f *finder) wordAfter(i int) string {
	start := i
	for start < len(f.text) && f.text[start] == ' ' && start-i < 3 {
		start++
	}
	end := start
	for end < len(f.text) && wordByte(f.text[end]) && end-start < 16 {
		end++
	}
	if start == i {
		return ""
	}
	return strings.ToLower(f.text[start:end])
}
