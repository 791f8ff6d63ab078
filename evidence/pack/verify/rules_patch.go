package verify

import (
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// patchRules are the rules for a patch.json that is an object.
//
//	PS1  patch_schema_version is a text and not empty
//	PS2  operations is a list of objects; op of each is create, modify or delete
//	PS3  path of an operation does not begin with a slash, or with a letter and a colon
//	PS4  path of an operation is a text and not empty. It has no segment "..", no
//	     backslash, no "//", none of U+0000 to U+001F and U+007F to U+009F; it does not
//	     begin with "./" and does not end in a slash; neither end of it is white space
//	     (White_Space of Unicode, or U+FEFF)
//	PS5  no two operations have the same path
//	PS6  content of a create or modify is a text without U+0000 and without lone
//	     surrogates, and encoding is utf8 or base64 where it is there; a delete has no
//	     content
//	PS7  total_bytes is the sum of the UTF-8 lengths of all contents, as texts, and not
//	     over 52 428 800. The sum is not looked at where a content breaks PS6
//	PS8  order of each operation is a whole number; the operations are by order, then path
//	PS9  op is not symlink, of which PS2 says nothing
//
// PS4 checks only a path that is not absolute (PS3), so no operation breaks both. PS6 is
// not checked for an unknown op.
func (v *verifier) patchRules() {
	patch := v.object(pack.PatchFile)
	if patch == nil {
		return
	}
	v.must(text(patch, "patch_schema_version") != "", "PS1", pack.PatchFile+"#/patch_schema_version", "missing or empty")
	list, ok := patch["operations"].([]any)
	if !ok {
		v.add("PS2", pack.At(pack.PatchFile, "operations"), "missing or not a list")
		return
	}
	c := patchCheck{verifier: v, seen: make(map[string]int, len(list))}
	for i, one := range list {
		op, ok := one.(map[string]any)
		if !ok {
			v.add("PS2", opAt(i), "not an object")
			c.unsummed = true
			continue
		}
		c.operation(i, op)
	}
	c.sum(patch["total_bytes"])
}

// patchCheck is the state of a patch while its operations are checked.
type patchCheck struct {
	*verifier
	seen     map[string]int // index of the operation with a path
	total    int64          // bytes of the contents so far
	unsummed bool           // a content is wrong

	order int64 // of the operation before
	path  string
	ahead bool // there is an earlier operation with both
}

func (c *patchCheck) operation(i int, op map[string]any) {
	kind := pack.Op(text(op, "op"))
	switch kind {
	case pack.OpCreate, pack.OpModify, pack.OpDelete:
	case "symlink":
		c.add("PS9", opAt(i, "op"), "a patch makes no links")
	default:
		c.add("PS2", opAt(i, "op"), "none of create, modify, delete")
	}
	path, hasPath := op["path"].(string)
	switch fault := pack.PatchPathFault(path); {
	case path == "":
		c.add("PS4", opAt(i, "path"), "missing or empty")
	case pack.IsAbsolute(path):
		c.add("PS3", opAt(i, "path"), "%s is absolute", pack.Quoted(path))
	case fault != "":
		c.add("PS4", opAt(i, "path"), "%s %s", pack.Quoted(path), fault)
	}
	if hasPath {
		if first, again := c.seen[path]; again {
			c.add("PS5", opAt(i, "path"), "operation %d has %s already", first, pack.Quoted(path))
		} else {
			c.seen[path] = i
		}
	}
	c.content(i, kind, op)
	c.place(i, op["order"], path, hasPath)
}

// content checks PS6, and adds to the sum of PS7.
func (c *patchCheck) content(i int, kind pack.Op, op map[string]any) {
	value, there := op["content"]
	text, isText := value.(string)
	c.total += int64(len(text))
	fault := ""
	switch {
	case there && isText && strings.IndexByte(text, 0) >= 0:
		fault = "has U+0000 or a lone surrogate"
	case there && !isText:
		fault = "is not a text"
	case kind == pack.OpDelete && there:
		c.add("PS6", opAt(i, "content"), "a delete has no content")
	case (kind == pack.OpCreate || kind == pack.OpModify) && !there:
		fault = "is missing"
	}
	if fault != "" {
		c.add("PS6", opAt(i, "content"), "the content %s", fault)
		c.unsummed = true
	}
	if encoding, ok := op["encoding"]; ok && kind != pack.OpDelete && encoding != any("utf8") && encoding != any("base64") {
		c.add("PS6", opAt(i, "encoding"), "neither utf8 nor base64")
	}
}

// place checks PS8.
func (c *patchCheck) place(i int, value any, path string, hasPath bool) {
	order, ok := canon.Whole(value)
	if !ok {
		c.add("PS8", opAt(i, "order"), "missing or not a whole number")
	} else if c.ahead && hasPath && (order < c.order || order == c.order && canon.Compare(path, c.path) < 0) {
		c.add("PS8", opAt(i), "order %d and %s stand behind order %d and %s", order, pack.Quoted(path), c.order, pack.Quoted(c.path))
	}
	c.order, c.path, c.ahead = order, path, ok && hasPath
}

// sum checks PS7.
func (c *patchCheck) sum(value any) {
	total, ok := canon.Whole(value)
	switch {
	case !ok:
		c.add("PS7", pack.At(pack.PatchFile, "total_bytes"), "missing or not a whole number")
	case c.total > pack.MaxPatchBytes || total > pack.MaxPatchBytes:
		c.add("PS7", pack.At(pack.PatchFile, "total_bytes"), "the contents have more than %d bytes", pack.MaxPatchBytes)
	case !c.unsummed && total != c.total:
		c.add("PS7", pack.At(pack.PatchFile, "total_bytes"), "%d, and the contents have %d bytes", total, c.total)
	}
}
