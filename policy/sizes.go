package policy

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// place is what an element of a collection counts, in bytes, beside its own.
const place = 16

// sizer takes from a meter what a call with some operands would make, or more. Operands
// that the function does not accept take nothing: it says so itself.
type sizer func(m *meter, operands []*ast.Term)

// sizers returns the built-in functions that can make more than they are given, by
// name. What the others make is no larger than their operands, a part of them, or small;
// numbers of many digits take all the time that there is long before they take memory.
func sizers() map[string]sizer {
	return map[string]sizer{
		"array.concat":                     both,
		"array.flatten":                    func(m *meter, o []*ast.Term) { elements(o[0], func(t *ast.Term) { m.take(place * (1 + count(t))) }) },
		"base64.encode":                    wider(4, 3),
		"base64url.encode":                 wider(4, 3),
		"base64url.encode_no_pad":          wider(4, 3),
		"concat":                           concatenated,
		"glob.quote_meta":                  wider(2, 1),
		"hex.encode":                       wider(2, 1),
		"indexof_n":                        func(m *meter, o []*ast.Term) { m.take(place * strings.Count(textOf(o[0]), first(textOf(o[1])))) },
		"internal.template_string":         func(m *meter, o []*ast.Term) { elements(o[0], m.inTemplate) },
		"json.marshal":                     func(m *meter, o []*ast.Term) { m.asText(o[0], 6) },
		"json.unmarshal":                   unmarshalled,
		"lower":                            wider(3, 2),
		"net.cidr_contains_matches":        func(m *meter, o []*ast.Term) { m.takeProduct(max(1, count(o[0])), max(1, count(o[1])), place) },
		"net.cidr_merge":                   func(m *meter, o []*ast.Term) { m.takeProduct(count(o[0]), 64, place) },
		"numbers.range":                    numbers,
		"numbers.range_step":               numbers,
		"object.union":                     func(m *meter, o []*ast.Term) { m.asObject(o[0]); m.asObject(o[1]) },
		"object.union_n":                   func(m *meter, o []*ast.Term) { elements(o[0], m.asObject) },
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
		"union":                            func(m *meter, o []*ast.Term) { elements(o[0], func(t *ast.Term) { m.take(place * count(t)) }) },
		"upper":                            wider(3, 2),
		"urlquery.decode_object":           func(m *meter, o []*ast.Term) { m.take(len(textOf(o[0])) + place*(1+strings.Count(textOf(o[0]), "&"))) },
		"urlquery.encode":                  wider(3, 1),
		"urlquery.encode_object":           queried,
	}
}

// meter counts down what a call may make.
type meter struct {
	left int
	bctx topdown.BuiltinContext
}

// over says whether more was taken than there was.
func (m *meter) over() bool { return m.left < 0 }

func (m *meter) take(n int) {
	if n < 0 || n > m.left {
		m.left = -1
		return
	}
	m.left -= n
}

// takeProduct takes the product of some factors, none of them negative.
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

// asText takes t as JSON or Rego text, with so many bytes for each byte of a string. A
// value that stands in many places counts in each.
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

// inTemplate takes a part of a template string: a text as it is, of a set its element.
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

// textOf is a string operand, or "".
func textOf(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

// first is the first character of a text.
func first(s string) string {
	for i := range s {
		if i > 0 {
			return s[:i]
		}
	}
	return s
}

// count is the number of elements of a collection, or 0.
func count(t *ast.Term) int {
	if c, ok := t.Value.(interface{ Len() int }); ok {
		return c.Len()
	}
	return 0
}

func both(m *meter, o []*ast.Term) { m.take(place * (count(o[0]) + count(o[1]))) }

// wider is of a function that makes times/per bytes of every byte of a text.
func wider(times, per int) sizer {
	return func(m *meter, o []*ast.Term) { m.take((len(textOf(o[0])) + per - 1) / per * times) }
}

func concatenated(m *meter, o []*ast.Term) {
	if n := count(o[1]); n > 1 {
		m.takeProduct(n-1, len(textOf(o[0])))
		elements(o[1], func(t *ast.Term) { m.take(len(textOf(t))) })
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

// occurrences is how often a text is replaced in s. An empty one stands before every
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

// replacedAll counts what a replacer needs for each pattern as well: a table of 256.
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

// queried repeats the name of a parameter before each of its values.
func queried(m *meter, o []*ast.Term) {
	if obj, ok := o[0].Value.(ast.Object); ok {
		obj.Until(func(k, v *ast.Term) bool {
			m.takeProduct(len(textOf(k))+place, max(1, count(v)), 3)
			m.takeProduct(len(textOf(v)), 3)
			elements(v, func(t *ast.Term) { m.takeProduct(len(textOf(t)), 3) })
			return m.over()
		})
	}
}

// instruction is what one instruction of a compiled pattern takes.
const instruction = 40

// compiledPattern names the size of a pattern in the cache of a query.
type compiledPattern string

// pattern takes what a pattern is when it is compiled: "a{9}" is nine instructions.
// Without a repetition it is about as long as its text.
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

// instructions is how many instructions a pattern has. The parser has bounded it.
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
// byte of a match. It counts the matches only where so many as s has bytes are too many.
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

// found is of a function that lists matches, with so many elements for each by the
// number of groups. Only where there is a number of matches is that a bound too.
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

// formatted formats in the operands' place values that count themselves, because only
// package fmt knows what a format does with them. A width of "*" is at most a million.
func formatted(m *meter, o []*ast.Term) {
	format, total := textOf(o[0]), 0
	var args []any
	elements(o[1], func(t *ast.Term) {
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

// counted is a value of some bytes that adds to total what it would be formatted.
type counted struct {
	size  int
	total *int
}

// Format counts a text as it is for the verbs that show it so, else six times.
func (c counted) Format(f fmt.State, verb rune) {
	width, _ := f.Width()
	precision, _ := f.Precision()
	n := c.size
	if f.Flag('#') || !strings.ContainsRune("svd", verb) {
		n *= 6
	}
	*c.total = min(*c.total+n+width+precision+shortest, resultBytes+1)
}

// shortest is the most that a number with a few digits takes.
const shortest = 400
