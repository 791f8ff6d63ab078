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
// is the list of these words: no start of a program has to make an index of them.
func sideOf(w string) string {
	switch w {
	case "stateless", "stateful", "blocking", "online", "offline", "mutable", "immutable", "encrypted",
		"unencrypted", "optional", "enabled", "disabled", "visible", "persistent", "ephemeral", "permanent",
		"temporary", "deterministic", "idempotent", "non-idempotent", "atomic", "non-atomic", "thread-safe",
		"case-sensitive", "case-insensitive", "authenticated", "unauthenticated", "signed", "unsigned", "sorted",
		"unsorted", "ordered", "unordered", "compressed", "uncompressed", "cached", "uncached", "bounded",
		"unbounded", "lossless", "lossy", "open-source", "typed", "untyped", "nullable", "non-nullable",
		"little-endian", "big-endian", "ascending", "descending", "interactive", "reversible", "irreversible",
		"opt-in", "opt-out", "client-side", "server-side", "transactional", "non-transactional", "versioned",
		"unversioned", "supported", "unsupported", "available", "unavailable", "transparent", "opaque", "empty",
		"relative", "absolute", "local", "remote", "internal", "external", "safe", "unsafe", "require", "enable",
		"disable", "include", "exclude", "accept", "reject", "show", "hide", "increase", "decrease", "retain",
		"discard":
		return w
	case "synchronous", "synchronously", "sync":
		return "synchronous"
	case "asynchronous", "asynchronously", "async":
		return "asynchronous"
	case "non-blocking", "nonblocking":
		return "non-blocking"
	case "read-only", "readonly":
		return "read-only"
	case "writable", "writeable", "read-write":
		return "writable"
	case "public", "publicly":
		return "public"
	case "private", "privately":
		return "private"
	case "sequential", "sequentially", "serially":
		return "sequential"
	case "parallel", "in-parallel", "concurrent", "concurrently":
		return "parallel"
	case "statically-typed", "static-typing":
		return "statically-typed"
	case "dynamically-typed", "dynamic-typing":
		return "dynamically-typed"
	case "statically-linked", "static-linking":
		return "statically-linked"
	case "dynamically-linked", "dynamic-linking":
		return "dynamically-linked"
	case "required", "mandatory", "compulsory":
		return "required"
	case "forbidden", "prohibited", "disallowed", "banned":
		return "forbidden"
	case "allowed", "permitted":
		return "allowed"
	case "hidden", "invisible":
		return "hidden"
	case "non-deterministic", "nondeterministic":
		return "non-deterministic"
	case "thread-unsafe", "non-thread-safe":
		return "thread-unsafe"
	case "single-threaded", "singlethreaded":
		return "single-threaded"
	case "multi-threaded", "multithreaded":
		return "multi-threaded"
	case "centralised", "centralized":
		return "centralised"
	case "decentralised", "decentralized":
		return "decentralised"
	case "closed-source", "proprietary":
		return "closed-source"
	case "eager", "eagerly":
		return "eager"
	case "lazy", "lazily":
		return "lazy"
	case "automatic", "automatically":
		return "automatic"
	case "manual", "manually":
		return "manual"
	case "non-interactive", "noninteractive":
		return "non-interactive"
	case "non-empty", "nonempty":
		return "non-empty"
	case "allow", "permit":
		return "allow"
	case "forbid", "prohibit", "disallow":
		return "forbid"
	case "minimise", "minimize":
		return "minimise"
	case "maximise", "maximize":
		return "maximise"
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
