package policy

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// place is the size in bytes that an element of a collection adds to its own size.
const place = 16

// sizer takes from a meter at least the size of the result of a call with these
// operands. It takes nothing for operands that the function refuses: the function
// reports them itself.
type sizer func(m *meter, operands []*ast.Term)

// sizers returns, by name, the built-in functions whose result can be larger than their
// operands. The result of any other function is no larger than its operands, a part of
// them, or small. Numbers of many digits use up the time long before they use up the
// memory.
func sizers() map[string]sizer {
	return map[string]sizer{
		"array.concat":                     both,
		"array.flatten":                    func(m *meter, o []*ast.Term) { Elements(o[0], func(t *ast.Term) { m.take(place * (1 + count(t))) }) },
		"base64.encode":                    wider(4, 3),
		"base64url.encode":                 wider(4, 3),
		"base64url.encode_no_pad":          wider(4, 3),
		"concat":                           concatenated,
		"glob.quote_meta":                  wider(2, 1),
		"hex.encode":                       wider(2, 1),
		"indexof_n":                        func(m *meter, o []*ast.Term) { m.take(place * strings.Count(textOf(o[0]), first(textOf(o[1])))) },
		"internal.template_string":         func(m *meter, o []*ast.Term) { Elements(o[0], m.inTemplate) },
		"json.marshal":                     func(m *meter, o []*ast.Term) { m.asText(o[0], 6) },
		"json.unmarshal":                   unmarshalled,
		"lower":                            wider(3, 2),
		"net.cidr_contains_matches":        func(m *meter, o []*ast.Term) { m.takeProduct(max(1, count(o[0])), max(1, count(o[1])), place) },
		"net.cidr_merge":                   func(m *meter, o []*ast.Term) { m.takeProduct(count(o[0]), 64, place) },
		"numbers.range":                    numbers,
		"numbers.range_step":               numbers,
		"object.union":                     func(m *meter, o []*ast.Term) { m.asObject(o[0]); m.asObject(o[1]) },
		"object.union_n":                   func(m *meter, o []*ast.Term) { Elements(o[0], m.asObject) },
		"or":                               both,
		"regex.find_all_string_submatch_n": found(func(groups int) int { return groups + 2 }),
		"regex.find_n":                     found(func(int) int { return 1 }),
		"regex.match":                      func(m *meter, o []*ast.Term) { m.pattern(textOf(o[0])) },
		"regex.replace":                    expanded,
		"regex.split":                      found(func(int) int { return 1 }),
		"replace":                          replaced,
		"split":                            parts,
		"sprintf":                          formatted,
		"strings.replace_n":                replacedAll,
		"strings.split_n":                  parts,
		"union":                            func(m *meter, o []*ast.Term) { Elements(o[0], func(t *ast.Term) { m.take(place * count(t)) }) },
		"upper":                            wider(3, 2),
		"urlquery.decode_object":           func(m *meter, o []*ast.Term) { m.take(len(textOf(o[0])) + place*(1+strings.Count(textOf(o[0]), "&"))) },
		"urlquery.encode":                  wider(3, 1),
		"urlquery.encode_object":           queried,
	}
}

// meter counts down the bytes that a call may make.
type meter struct {
	left int
	bctx topdown.BuiltinContext
}

// over says whether more was taken than the meter had.
func (m *meter) over() bool { return m.left < 0 }

func (m *meter) take(n int) {
	if n < 0 || n > m.left {
		m.left = -1
		return
	}
	m.left -= n
}

// takeProduct takes the product of some factors, which are never negative.
func (m *meter) takeProduct(factors ...int) {
	n := 1
	for _, f := range factors {
		if f > 0 && n > math.MaxInt/f {
			n = math.MaxInt
			continue
		}
		n *= f
	}
	m.take(n)
}

// asText takes the size of t as JSON or Rego text, with width bytes for each byte of a
// string. A value in several places counts in each place.
func (m *meter) asText(t *ast.Term, width int) {
	stop := func(t *ast.Term) bool { m.asText(t, width); return m.over() }
	m.take(place)
	switch v := t.Value.(type) {
	case ast.String:
		m.takeProduct(len(v), width)
	case ast.Number:
		m.take(len(v))
	case *ast.Array:
		v.Until(stop)
	case ast.Set:
		v.Until(stop)
	case ast.Object:
		v.Until(func(k, v *ast.Term) bool { return stop(k) || stop(v) })
	}
}

// inTemplate takes a part of a template string: a text at its own size, and of a set
// each element.
func (m *meter) inTemplate(t *ast.Term) {
	switch v := t.Value.(type) {
	case ast.String:
		m.take(len(v))
	case ast.Set:
		v.Until(func(t *ast.Term) bool { m.inTemplate(t); return m.over() })
	default:
		m.asText(t, 4)
	}
}

// asObject takes an object and the objects within it.
func (m *meter) asObject(t *ast.Term) {
	if obj, ok := t.Value.(ast.Object); ok && !m.over() {
		m.take(place * obj.Len())
		obj.Until(func(_, v *ast.Term) bool { m.asObject(v); return m.over() })
	}
}

// textOf returns a string operand, or "".
func textOf(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

// first returns the first character of a text.
func first(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

// count returns the number of elements of a collection, or 0.
func count(t *ast.Term) int {
	if c, ok := t.Value.(interface{ Len() int }); ok {
		return c.Len()
	}
	return 0
}

func both(m *meter, o []*ast.Term) { m.take(place * (count(o[0]) + count(o[1]))) }

// wider is the sizer of a function that makes times bytes from every per bytes of a
// text.
func wider(times, per int) sizer {
	return func(m *meter, o []*ast.Term) { m.take((len(textOf(o[0])) + per - 1) / per * times) }
}

func concatenated(m *meter, o []*ast.Term) {
	if n := count(o[1]); n > 1 {
		m.takeProduct(n-1, len(textOf(o[0])))
		Elements(o[1], func(t *ast.Term) { m.take(len(textOf(t))) })
	}
}

func parts(m *meter, o []*ast.Term) { m.take(place * (1 + strings.Count(textOf(o[0]), textOf(o[1])))) }

func unmarshalled(m *meter, o []*ast.Term) {
	s := textOf(o[0])
	m.take(len(s) + place)
	for _, mark := range []string{",", ":", "[", "{"} {
		m.take(place * strings.Count(s, mark))
	}
}

func numbers(m *meter, o []*ast.Term) {
	x, err := builtins.BigIntOperand(o[0].Value, 1)
	if err != nil {
		return
	}
	y, err := builtins.BigIntOperand(o[1].Value, 2)
	if err != nil {
		return
	}
	n := y.Sub(y, x)
	n.Abs(n)
	if len(o) > 2 {
		step, err := builtins.BigIntOperand(o[2].Value, 3)
		if err == nil && step.Sign() > 0 {
			n.Quo(n, step)
		}
	}
	if n.Cmp(big.NewInt(resultBytes)) > 0 {
		n.SetInt64(resultBytes)
	}
	m.take(place * (1 + int(n.Int64())))
}

// occurrences returns how often old is replaced in s. An empty old occurs before every
// byte and at the end.
func occurrences(s, old string) int {
	if old == "" {
		return len(s) + 1
	}
	return strings.Count(s, old)
}

func replaced(m *meter, o []*ast.Term) {
	s := textOf(o[0])
	m.take(len(s))
	m.takeProduct(occurrences(s, textOf(o[1])), len(textOf(o[2])))
}

// replacedAll also counts a table of 256 entries that a replacer needs for each
// pattern.
func replacedAll(m *meter, o []*ast.Term) {
	s := textOf(o[1])
	m.take(len(s))
	if patterns, ok := o[0].Value.(ast.Object); ok {
		patterns.Until(func(k, v *ast.Term) bool {
			m.take(256 * 8)
			m.takeProduct(occurrences(s, textOf(k)), len(textOf(v)))
			return m.over() || m.bctx.Cancel != nil && m.bctx.Cancel.Cancelled()
		})
	}
}

// queried counts the name of a parameter again before each of its values.
func queried(m *meter, o []*ast.Term) {
	if obj, ok := o[0].Value.(ast.Object); ok {
		obj.Until(func(k, v *ast.Term) bool {
			m.takeProduct(len(textOf(k))+place, max(1, count(v)), 3)
			m.takeProduct(len(textOf(v)), 3)
			Elements(v, func(t *ast.Term) { m.takeProduct(len(textOf(t)), 3) })
			return m.over()
		})
	}
}

// instruction is the size in bytes of one instruction of a compiled pattern.
const instruction = 40

// compiledPattern is the key of a pattern's size in the cache of a query.
type compiledPattern string

// pattern takes the size of a compiled pattern: "a{9}" is nine instructions. A pattern
// without a repetition is about as long as its text.
func (m *meter) pattern(s string) {
	if !strings.Contains(s, "{") {
		m.takeProduct(len(s), instruction)
		return
	}
	if m.bctx.Cache == nil {
		m.takeProduct(patternSize(s), instruction)
		return
	}
	n, known := m.bctx.Cache.Get(compiledPattern(s))
	if !known {
		n = patternSize(s)
		m.bctx.Cache.Put(compiledPattern(s), n)
	}
	m.takeProduct(n.(int), instruction)
}

func patternSize(s string) int {
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return len(s)
	}
	return instructions(re)
}

// instructions returns the number of instructions of a pattern. The parser bounds this
// number.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpRepeat:
		return n * max(1, re.Min, re.Max)
	case syntax.OpCapture:
		return n + 1
	}
	return n
}

// matches takes cost bytes for every match of a pattern in s, and each bytes for every
// byte of a match. It first assumes a match at every byte of s, and counts the matches
// only if that is too many.
func (m *meter) matches(pattern, s string, cost, each int) {
	m.pattern(pattern)
	if m.over() {
		return
	}
	before := m.left
	m.takeProduct(len(s)+1, cost)
	m.takeProduct(len(s), each)
	if !m.over() {
		return
	}
	re, err := regexp.Compile(pattern)
	if m.left = before; err != nil {
		return
	}
	re.ReplaceAllStringFunc(s, func(match string) string {
		m.take(cost)
		m.takeProduct(len(match), each)
		return ""
	})
}

// found is the sizer of a function that lists matches. width returns the number of
// elements of a match from its number of groups. The bound also holds if a call limits
// the number of matches.
func found(width func(groups int) int) sizer {
	return func(m *meter, o []*ast.Term) {
		m.matches(textOf(o[0]), textOf(o[1]), place*width(strings.Count(textOf(o[0]), "(")), 0)
	}
}

func expanded(m *meter, o []*ast.Term) {
	s, pattern, value := textOf(o[0]), textOf(o[1]), textOf(o[2])
	m.take(len(s))
	m.matches(pattern, s, place*(1+strings.Count(pattern, "("))+len(value), strings.Count(value, "$"))
}

// formatted formats values that count themselves in place of the operands, because only
// package fmt knows the effect of a format. A width of "*" is at most a million.
func formatted(m *meter, o []*ast.Term) {
	format, total := textOf(o[0]), 0
	var args []any
	Elements(o[1], func(t *ast.Term) {
		size := 0
		switch v := t.Value.(type) {
		case ast.String:
			size = len(v)
		case ast.Number:
			size = len(v)
		default:
			own := meter{left: m.left}
			if own.asText(t, 4); own.over() {
				m.left = own.left
			}
			size = m.left - own.left
		}
		args = append(args, counted{size, &total})
	})
	if m.over() {
		return
	}
	m.take(len(fmt.Sprintf(format, args...)))
	m.take(total)
	m.takeProduct(strings.Count(format, "*"), 1_000_000)
}

// counted stands for a value of size bytes. It adds its formatted size to total.
type counted struct {
	size  int
	total *int
}

// Format counts a text once for the verbs that show it unchanged, and six times for
// others.
func (c counted) Format(f fmt.State, verb rune) {
	width, _ := f.Width()
	precision, _ := f.Precision()
	n := c.size
	if f.Flag('#') || !strings.ContainsRune("svd", verb) {
		n *= 6
	}
	*c.total = min(*c.total+n+width+precision+shortest, resultBytes+1)
}

// shortest is the greatest size of a formatted number with few digits.
const shortest = 400
