package prose

// opposite is a pair of sides, each by the word that the detector shows for it. The detector
// also finds a word with a hyphen where the word is written as two words.
type opposite struct {
	a, b string
	class
}

// class is the class of the words of an opposite.
type class uint8

const (
	adjective class = iota // adjectives and adverbs
	verb
)

// opposites are the known opposites. Of several clashes of two constraints, the detector
// reports the one whose opposite comes first.
var opposites = [...]opposite{
	{"stateless", "stateful", adjective},
	{"synchronous", "asynchronous", adjective},
	{"blocking", "non-blocking", adjective},
	{"read-only", "writable", adjective},
	{"online", "offline", adjective},
	{"public", "private", adjective},
	{"mutable", "immutable", adjective},
	{"encrypted", "unencrypted", adjective},
	{"sequential", "parallel", adjective},
	{"statically-typed", "dynamically-typed", adjective},
	{"statically-linked", "dynamically-linked", adjective},
	{"required", "optional", adjective},
	{"required", "forbidden", adjective},
	{"allowed", "forbidden", adjective},
	{"enabled", "disabled", adjective},
	{"visible", "hidden", adjective},
	{"persistent", "ephemeral", adjective},
	{"permanent", "temporary", adjective},
	{"deterministic", "non-deterministic", adjective},
	{"idempotent", "non-idempotent", adjective},
	{"atomic", "non-atomic", adjective},
	{"thread-safe", "thread-unsafe", adjective},
	{"single-threaded", "multi-threaded", adjective},
	{"case-sensitive", "case-insensitive", adjective},
	{"authenticated", "unauthenticated", adjective},
	{"signed", "unsigned", adjective},
	{"sorted", "unsorted", adjective},
	{"ordered", "unordered", adjective},
	{"compressed", "uncompressed", adjective},
	{"cached", "uncached", adjective},
	{"bounded", "unbounded", adjective},
	{"lossless", "lossy", adjective},
	{"centralised", "decentralised", adjective},
	{"open-source", "closed-source", adjective},
	{"eager", "lazy", adjective},
	{"typed", "untyped", adjective},
	{"nullable", "non-nullable", adjective},
	{"little-endian", "big-endian", adjective},
	{"ascending", "descending", adjective},
	{"automatic", "manual", adjective},
	{"interactive", "non-interactive", adjective},
	{"reversible", "irreversible", adjective},
	{"opt-in", "opt-out", adjective},
	{"client-side", "server-side", adjective},
	{"transactional", "non-transactional", adjective},
	{"versioned", "unversioned", adjective},
	{"supported", "unsupported", adjective},
	{"available", "unavailable", adjective},
	{"transparent", "opaque", adjective},
	{"empty", "non-empty", adjective},
	{"relative", "absolute", adjective},
	{"local", "remote", adjective},
	{"internal", "external", adjective},
	{"safe", "unsafe", adjective},
	{"allow", "forbid", verb},
	{"require", "forbid", verb},
	{"enable", "disable", verb},
	{"include", "exclude", verb},
	{"accept", "reject", verb},
	{"show", "hide", verb},
	{"minimise", "maximise", verb},
	{"increase", "decrease", verb},
	{"retain", "discard", verb},
}

// sideOf returns the word that the detector shows for the side that a word names, or "". It
// is the list of the words that are not shown: no start of a program has to make an index of
// them.
func sideOf(w string) string {
	switch w {
	case "synchronously", "sync":
		return "synchronous"
	case "asynchronously", "async":
		return "asynchronous"
	case "nonblocking":
		return "non-blocking"
	case "readonly":
		return "read-only"
	case "writeable", "read-write":
		return "writable"
	case "publicly":
		return "public"
	case "privately":
		return "private"
	case "sequentially", "serially":
		return "sequential"
	case "in-parallel", "concurrent", "concurrently":
		return "parallel"
	case "static-typing":
		return "statically-typed"
	case "dynamic-typing":
		return "dynamically-typed"
	case "static-linking":
		return "statically-linked"
	case "dynamic-linking":
		return "dynamically-linked"
	case "mandatory", "compulsory":
		return "required"
	case "prohibited", "disallowed", "banned":
		return "forbidden"
	case "permitted":
		return "allowed"
	case "invisible":
		return "hidden"
	case "nondeterministic":
		return "non-deterministic"
	case "non-thread-safe":
		return "thread-unsafe"
	case "singlethreaded":
		return "single-threaded"
	case "multithreaded":
		return "multi-threaded"
	case "centralized":
		return "centralised"
	case "decentralized":
		return "decentralised"
	case "proprietary":
		return "closed-source"
	case "eagerly":
		return "eager"
	case "lazily":
		return "lazy"
	case "automatically":
		return "automatic"
	case "manually":
		return "manual"
	case "noninteractive":
		return "non-interactive"
	case "nonempty":
		return "non-empty"
	case "permit":
		return "allow"
	case "prohibit", "disallow":
		return "forbid"
	case "minimize":
		return "minimise"
	case "maximize":
		return "maximise"
	}
	for i := range opposites {
		if opposites[i].a == w || opposites[i].b == w {
			return w
		}
	}
	return ""
}

// term is a word of a sentence that names one side of one opposite.
type term struct {
	at       int // index of the word
	opposite int // index of the opposite
	side     int
	class
}

// appendTerms appends the sides of opposites that the word at an index names. Few words
// name any. The opposites of one side stand together in the list.
func appendTerms(list []term, at int, w string) []term {
	shown, before := sideOf(w), len(list)
	if shown == "" {
		return list
	}
	for i := range opposites {
		o := &opposites[i]
		if o.a == shown {
			list = append(list, term{at, i, 0, o.class})
		} else if o.b == shown {
			list = append(list, term{at, i, 1, o.class})
		} else if len(list) > before {
			break
		}
	}
	return list
}
