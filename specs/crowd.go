package specs

import (
	"maps"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// maxFaults is the number of certain faults after which the rest of a document's lists
// is left out. The library needs about a microsecond and a kilobyte for each error, and
// one MiB of JSON can have half a million errors.
const maxFaults = 256

// crowd shortens a document with very many faults, so that its validation stays cheap.
// crowd never decides. If a shortened document is valid, the whole document is validated
// again.
type crowd struct {
	faults  int  // number of certain faults so far
	dropped int  // number of unknown members left out, each a fault
	foreign bool // a value has a type that JSON does not decode to
}

// value returns v. If v has excess parts, it returns a copy without them, and true.
func (c *crowd) value(s *shape, v any) (any, bool) {
	if typeOf(v) == "" {
		c.foreign = true
		return v, false
	}
	s = s.in(v)
	if s == nil {
		return v, false
	}
	if !s.admits(v) {
		c.faults++
		return v, false
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(s, v)
	case []any:
		return c.list(s, v)
	case string:
		if !s.fits(v) {
			c.faults++
		}
	}
	return v, false
}

func (c *crowd) object(s *shape, v map[string]any) (any, bool) {
	known := 0
	for _, m := range s.members {
		if _, ok := v[m.name]; ok {
			known++
		} else if m.required {
			c.faults++
		}
	}
	part := v
	switch {
	case s.closed && len(v) > known:
		c.faults += len(v) - known
		part = fewer(v, known+MaxViolations, func(name string) bool { return !s.knows(name) })
		c.dropped += len(v) - len(part)
	case s.other != nil && s.maxMembers >= 0 && len(v) > s.maxMembers:
		c.faults++
		part = fewer(v, s.maxMembers+1, func(string) bool { return true })
	}
	shortened := len(part) < len(v)
	shorten := func(name string, inner *shape) {
		now, less := c.value(inner, part[name])
		if less && !shortened {
			part, shortened = maps.Clone(part), true
		}
		if less {
			part[name] = now
		}
	}
	if s.other != nil {
		for _, name := range canon.Names(part) {
			shorten(name, s.member(name))
		}
		return part, shortened
	}
	for _, m := range s.members {
		if _, ok := part[m.name]; ok {
			shorten(m.name, m.shape)
		}
	}
	return part, shortened
}

// fewer returns v, or a copy with limit members if v has more. It removes members that
// mayGo allows, the last in order first.
func fewer(v map[string]any, limit int, mayGo func(string) bool) map[string]any {
	if len(v) <= limit {
		return v
	}
	names := slices.DeleteFunc(canon.Names(v), func(name string) bool { return !mayGo(name) })
	gone := names[len(names)-(len(v)-limit):]
	part := make(map[string]any, limit)
	for name, member := range v {
		if !mayGo(name) || canon.Compare(name, gone[0]) < 0 {
			part[name] = member
		}
	}
	return part
}

func (c *crowd) list(s *shape, v []any) (any, bool) {
	if s.items == nil {
		return v, false
	}
	part, shortened, copied := v, false, false
	if s.maxItems >= 0 && len(v) > s.maxItems {
		c.faults++
		part, shortened = v[:s.maxItems+1], true
	}
	for i, was := range part {
		if i > 0 && c.faults >= maxFaults {
			return part[:i], true
		}
		now, less := c.value(s.items, was)
		if !less {
			continue
		}
		if !copied {
			part, copied = slices.Clone(part), true
		}
		part[i], shortened = now, true
	}
	return part, shortened
}
