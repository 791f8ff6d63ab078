package prose

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/text"
)

// The contradiction detector compares constraints. It prefers to miss a clash over
// reporting a false one. It reads a constraint sentence by sentence, and skips:
//
//   - a sentence of more than 40 words
//   - a question
//   - a sentence with two negations
//   - a sentence with a negation where the rules below do not expect one
//
// A sentence makes a statement about each opposite of the list that has exactly one
// term in it. The term must describe the sentence's subject:
//
//   - behind a verb of being ("must be stateless", "is a public API")
//   - at the end behind keep, make, leave or mark ("keep the API private"), or
//     as an adverb ("write the files synchronously"; "must run offline")
//   - behind use, prefer, choose, require ("use synchronous calls"), but not
//     where both can be used side by side ("use local files")
//   - alone, or in front of one noun ("stateless", "static linking")
//   - a verb of the list: as the imperative or behind must and its like
//     ("allow redirects", "must forbid redirects")
//
// The subject is the sentence without the term, articles, modal verbs and the like. Two
// statements with the same opposite and the same subject clash in two cases:
//
//   - they name the two sides, and neither is negated
//   - they name the same side, and exactly one is negated
//
// A bare term is about the whole. It also clashes where the subject of the other
// statement is a general word for the whole ("the service").
//
// A sentence also makes a plain statement: the sentence without its negation (must not,
// do not, never, cannot, is not, no, without, avoid) and without modal verbs and
// articles. Two plain statements clash when they are the same and exactly one is
// negated.
//
// A term or a negation in a subordinate clause ("files that are public", "when tests do
// not fail") makes no statement. A constraint never clashes with itself or with an
// equal one.

const (
	modals     text.Words = "must shall should will would can may could do does did"
	beingVerbs text.Words = "be is are was were been being stay stays remain remains"
	fillers    text.Words = `a an the any ever please always strictly fully completely entirely it its this that these those ensure , : -`
	subjectBut text.Words = `all every each keep make leave mark use using prefer choose require only`
	makeVerbs  text.Words = "keep make leave mark"
	useVerbs   text.Words = "use prefer choose require only"
	quantities text.Words = "longer more less fewer later earlier sooner matter one other"
	limits     text.Words = "only necessarily just yet always all every both merely exactly quite enough entirely fully"
	noBefore   text.Words = "use using with have has is are be allow accept there contain contains"
	unclear    text.Words = "nor neither none nothing nobody hardly barely rarely seldom either whether versus vs n't"
	joiners    text.Words = "if when whenever while unless until which who whose where because so as after before since although though that whether than"
	additive   text.Words = "available empty external internal local non-empty private public relative absolute remote safe supported unsafe"
	protocols  text.Words = "ftps https imaps ldaps smtps"
	wholes     text.Words = `system service server application app program tool code codebase implementation design solution
		project product software library package module component api everything`
)

const maxSentence = 40

// plain is the opposite of plain statements: affirmed or negated.
const plain = -1

// topic is what a statement is about.
type topic struct {
	opposite int
	subject  string
}

// statement is a constraint's statement on a topic.
type statement struct {
	constraint int
	side       int
	negated    bool
	text       string // of a plain statement: the text that is shown
}

// Contradictions returns the pairs of constraints that contradict each other, sorted by
// first and second index. If there are more than maxClashes, it returns for each
// constraint only the pair with the first later constraint.
func Contradictions(list []string) []Clash {
	if len(list) < 2 {
		return nil
	}
	read := make([][]sentence, len(list))
	negated := false // without a negation, plain statements never clash
	for i, c := range list {
		read[i] = sentences(c)
		negated = negated || slices.ContainsFunc(read[i], func(s sentence) bool { return s.negated })
	}
	said := map[topic]*groups{}
	for i, list := range read {
		for _, s := range list {
			s.read(negated, func(t topic, st statement) {
				st.constraint = i
				if said[t] == nil {
					said[t] = &groups{}
				}
				said[t].add(st)
			})
		}
	}
	found := newPairs(list)
	for t, all := range said {
		for a := range all {
			for b := a + 1; b < len(all); b++ {
				found.addAll(t.opposite, all[a], all[b])
			}
		}
		if t.opposite == plain || t.subject != "" {
			continue
		}
		for w := range strings.FieldsSeq(string(wholes)) {
			if whole := said[topic{t.opposite, stem(w)}]; whole != nil {
				for a := range all {
					for b := range whole {
						found.addAll(t.opposite, all[a], whole[b])
					}
				}
			}
		}
	}
	return found.list()
}

// groups holds the statements on one topic by side and negation, each group sorted by
// constraint. Of two statements of one constraint in a group, the one whose text sorts
// first is kept.
type groups [4][]statement

func (g *groups) add(s statement) {
	list := g[s.group()]
	if n := len(list); n == 0 || list[n-1].constraint != s.constraint {
		g[s.group()] = append(list, s)
	} else if s.text < list[n-1].text {
		list[n-1] = s
	}
}

func (s statement) group() int {
	if s.negated {
		return s.side + 2
	}
	return s.side
}

func clashes(a, b statement) bool {
	if a.side != b.side {
		return !a.negated && !b.negated
	}
	return a.negated != b.negated
}

func clashText(opp int, a, b statement) string {
	if opp == plain {
		if a.negated {
			a = b
		}
		return "must / must not: " + a.text
	}
	o := opposites[opp]
	if a.side != b.side {
		return o.a + " / " + o.b
	}
	if a.side == 0 {
		return o.a + " / not " + o.a
	}
	return o.b + " / not " + o.b
}

// read reports the statements of the sentence, and with withPlain its plain statement.
func (s sentence) read(withPlain bool, report func(topic, statement)) {
	var room [16]term // most sentences need no allocation for their terms
	list := room[:0]
	for i, w := range s.words {
		list = appendTerms(list, i, w)
	}
	if len(list) > 0 {
		s.readTerms(list, report)
	}
	if !withPlain {
		return
	}
	if subject, text := s.plain(); subject != "" {
		report(topic{plain, subject}, statement{negated: s.negated, text: text})
	}
}

// readTerms reports the sentence's statements about opposites. list has the terms of its
// words, in the order of the words.
func (s sentence) readTerms(list []term, report func(topic, statement)) {
	count := map[int]int{}
	for _, t := range list {
		count[t.opposite]++
	}
	stems := make([]string, len(s.words)) // "" for a word that does not describe the subject
	for k, w := range s.words {
		if !modals.Has(w) && !beingVerbs.Has(w) && !fillers.Has(w) && !subjectBut.Has(w) {
			stems[k] = stem(w)
		}
	}
	modal, being := slices.ContainsFunc(s.words, modals.Has), slices.ContainsFunc(s.words, beingVerbs.Has)
	below := clauses{words: s.words}
	for i := range s.words {
		subordinate := below.next()
		for ; len(list) > 0 && list[0].at == i; list = list[1:] {
			t := list[0]
			if count[t.opposite] > 1 || subordinate || s.negated && s.at > i {
				continue
			}
			subject := subjectOf(stems, i)
			if t.class == verb && (!s.leads(i) || subject == "") || t.class == adjective && !s.saidOf(i, subject, modal, being) {
				continue
			}
			report(topic{t.opposite, subject}, statement{side: t.side, negated: s.negated})
		}
	}
}

// subjectOf returns the sentence without the word at i and without the words that do
// not describe the subject.
func subjectOf(stems []string, i int) string {
	list := make([]string, 0, len(stems))
	for k, w := range stems {
		if k != i && w != "" {
			list = append(list, w)
		}
	}
	return strings.Join(list, " ")
}

// leads says whether the word at i is the imperative, or the verb behind a modal verb.
func (s sentence) leads(i int) bool {
	for k := range i {
		if !fillers.Has(s.words[k]) && !modals.Has(s.words[k]) {
			return modals.Has(s.words[i-1])
		}
	}
	return true
}

// saidOf says whether the term at i describes the subject, by the rules in the comment
// above. modal and being say whether the sentence has a modal verb or a verb of being.
func (s sentence) saidOf(i int, subject string, modal, being bool) bool {
	last := len(s.words) - 1
	for last > i && (fillers.Has(s.words[last]) || s.words[last] == "only") {
		last--
	}
	before := i - 1
	for before >= 0 && fillers.Has(s.words[before]) && s.words[before] != "," {
		before--
	}
	if subject == "" {
		return last == i || before < 0
	}
	if before >= 0 {
		w := s.words[before]
		if beingVerbs.Has(w) || useVerbs.Has(w) && last > i && s.leads(before) && !additive.Has(s.words[i]) {
			return true
		}
		adverb := strings.HasSuffix(s.words[i], "ly") && s.words[i] != "read-only" || s.words[i] == "in-parallel" ||
			text.Words("offline online").Has(s.words[i]) && modal
		return last == i && (adverb || makeVerbs.Has(s.words[0]))
	}
	return !modal && !being && !strings.Contains(subject, " ")
}

// plain returns the sentence as a plain statement, in one form to compare and one to
// show.
func (s sentence) plain() (subject, statement string) {
	var stems, shown []string
	for _, w := range s.words {
		switch {
		case modals.Has(w), fillers.Has(w), w == "only" && len(shown) == 0 && s.negated:
			continue
		case beingVerbs.Has(w):
			w = "be"
		case len(shown) == 0 && text.Words("use using have allow with").Has(w):
			continue
		}
		stems = append(stems, stem(w))
		shown = append(shown, w)
	}
	if !slices.ContainsFunc(shown, func(w string) bool { return w != "be" && strings.ContainsFunc(w, text.IsWord) }) {
		return "", ""
	}
	return strings.Join(stems, " "), strings.Join(shown, " ")
}

// stem drops the final s of a plural or of a verb in the third person.
func stem(w string) string {
	if protocols.Has(w) {
		return w
	}
	if len(w) > 3 && w[len(w)-1] == 's' && strings.IndexByte("sui", w[len(w)-2]) < 0 {
		return w[:len(w)-1]
	}
	return w
}
