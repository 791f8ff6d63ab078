package verify

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/trial"
)

// href checks SU12 and SU13 for a member, which may be absent or null. It returns the file to
// which the member leads, or "". inAssets demands that the file lies in assets.
func (v *verifier) href(p place, member string, inAssets bool) string {
	value, there := p.obj[member]
	name, isText := value.(string)
	switch {
	case !there || value == nil:
		return ""
	case !isText || !cleanPath(name):
		v.add("SU12", p.at(member), "%s is no clean path beneath the directory", canon.Quote(name))
		return ""
	case inAssets && !strings.HasPrefix(name, trial.AssetsFolder+"/"):
		v.add("SU12", p.at(member), "%s does not lie in %s", canon.Quote(name), trial.AssetsFolder)
	}
	if !v.names[name] {
		v.add(RuleFileMissing, p.at(member), "there is no file %s", canon.Quote(name))
		return ""
	}
	return name
}

// cleanPath says whether a path is relative, without "..", "." and empty segments, and is read
// as the same path on every system.
func cleanPath(path string) bool {
	return path != "" && utf8.ValidString(path) && pathname.Clean(path) == path && !absolute(path) &&
		!strings.ContainsAny(path, "\\\x00") && !slices.Contains(strings.Split(path, "/"), "..")
}

// absolute says whether a path begins at the root of a system.
func absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\`) || pathname.HasDrive(path) || strings.HasPrefix(strings.ToLower(path), "file:")
}

// sum checks SU14 for the members that are the size and the SHA-256 of a file, and may be absent.
// A SHA-256 is 64 hexadecimal digits, or "sha256:" and these.
func (v *verifier) sum(p place, size, hash, name string) {
	bytes, sized := p.number(size)
	digits, hashed := p.obj[hash].(string)
	if name == "" || !sized && !hashed {
		return
	}
	sum, n := v.dir.Sum(name)
	v.must(!hashed || strings.TrimPrefix(digits, "sha256:") == sum, "SU14", p, hash, "not the SHA-256 of %s", canon.Quote(name))
	v.must(!sized || bytes == float64(n), "SU14", p, size, "%s has %d bytes", canon.Quote(name), n)
}

// failure checks SU9 to SU17 for the failure of a case.
func (v *verifier) failure(c, f place) {
	attempts := c.each("attempts")
	n, _ := f.number("attempt")
	whole := n >= 1 && n == math.Trunc(n)
	v.must(whole && (len(attempts) == 0 || n <= float64(len(attempts))), "SU9", f, "attempt", "no number of an attempt")
	if whole && n <= float64(len(attempts)) {
		a := attempts[int(n)-1]
		class, there := a.obj["error_class"]
		v.must(!there || class == f.obj["class"], "SU9", a, "error_class", "runner_failure is about this attempt, and has another class")
	}
	if trial.TextOf(f.obj, "class") == string(trial.HTTPError) {
		_, there := f.number("status")
		v.must(there, "SU10", f, "status", "missing in an http_error")
	}
	snippet, hasSnippet := f.obj["body_snippet"].(string)
	_, hasBody := f.obj["full_body_saved_to"].(string)
	v.must(!hasSnippet || hasBody, "SU11", f, "full_body_saved_to", "null, and there is a body_snippet")
	v.must(hasSnippet || !hasBody, "SU11", f, "body_snippet", "null, and there is the file of a body")
	_, described := f.obj["full_body_meta_saved_to"].(string)
	v.must(!described || hasBody, "SU11", f, "full_body_meta_saved_to", "there is no body that it could describe")
	body := v.href(f, "full_body_saved_to", true)
	if body != "" && hasSnippet {
		v.must(begins(v.dir.Content(body), snippet), "SU15", f, "body_snippet", "not the beginning of %s", canon.Quote(body))
	}
	if href := v.href(f, "full_body_meta_saved_to", true); href != "" {
		m := v.meta(href)
		id, hasID := m.obj["case_id"]
		v.must(!hasID || id == c.obj["case_id"], "SU17", m, "case_id", "%s is about another case", canon.Quote(c.file))
		class, hasClass := m.obj["class"]
		v.must(!hasClass || class == f.obj["class"], "SU17", m, "class", "%s has another class", canon.Quote(c.file))
		v.sum(m, "bytes_written", "sha256", body)
	}
}

// begins says whether a snippet is the beginning of a body, in which U+FFFD stands for bytes
// that are not UTF-8. One may stand for several bytes, and several for one character that was cut.
func begins(body []byte, snippet string) bool {
	var last rune
	left := strings.TrimRight(strings.Map(func(r rune) rune {
		if r == utf8.RuneError && r == last {
			return -1
		}
		last = r
		return r
	}, snippet), "\ufffd")
	last = 0
	for len(body) > 0 && left != "" {
		r, size := utf8.DecodeRune(body)
		body = body[size:]
		if r == utf8.RuneError && r == last {
			continue
		}
		rest, same := strings.CutPrefix(left, string(r))
		if !same {
			return false
		}
		left, last = rest, r
	}
	return left == ""
}

// meta checks SU16, SU17 and SU20 for the description of a body.
func (v *verifier) meta(name string) place {
	m := v.document("SU17", name, "suite-failure-meta")
	v.sameVersion(m, "version")
	v.paths(m, m.obj)
	written, haveWritten := m.number("bytes_written")
	total, haveTotal := m.number("bytes_total")
	truncated, haveTruncated := m.obj["truncated"].(bool)
	if haveWritten && haveTotal {
		v.must(written <= total, "SU16", m, "bytes_total", "fewer bytes than were written")
		v.must(!haveTruncated || truncated == (written < total), "SU16", m, "truncated", "%v bytes were written of %v", written, total)
	}
	return m
}

// manifest checks SU21 and SU22, and the files of the manifest. It returns the assets, or nil if
// there is no manifest that fits its schema.
func (v *verifier) manifest() []place {
	if !v.names[trial.ManifestFile] {
		return nil
	}
	m := v.document("SU21", trial.ManifestFile, "suite-assets-manifest")
	if m.obj == nil {
		return nil
	}
	v.paths(m, m.obj)
	ids, keys := map[string]bool{}, map[[3]string]bool{}
	items := m.each("items")
	for _, item := range items {
		id, key := trial.TextOf(item.obj, "asset_id"), [3]string{trial.TextOf(item.obj, "href"), trial.TextOf(item.obj, "case_id"), trial.TextOf(item.obj, "kind")}
		v.must(!ids[id], "SU22", item, "asset_id", "another asset has the id %s", canon.Quote(id))
		v.must(!keys[key], "SU22", item, "href", "another asset has this href, case and kind")
		ids[id], keys[key] = true, true
		v.sameVersion(item, "side")
		href := v.href(item, "href", false)
		v.sum(item, "size_bytes", "sha256", href)
		if href != "" && href != trial.ManifestFile {
			v.assets[id] = true
			v.assets[href] = true
		}
		if href != "" && key[2] == "failure_meta" {
			v.meta(href)
		}
	}
	return items
}

// paths checks SU20 for all members beneath a place, but in data, whose names are those of paths. Few documents
// have an absolute one, and the others need no pointers.
func (v *verifier) paths(p place, value any) {
	if hasAbsolute(value) {
		v.absolutes(p, value)
	}
}

// hasAbsolute says whether absolutes finds a path.
func hasAbsolute(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, one := range value {
			path, isText := one.(string)
			if isText && trial.NamesFile(name) && absolute(path) || !isText && hasAbsolute(one) && !trial.Data.Has(name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasAbsolute)
	}
	return false
}

// absolutes cuts pointers, so that long names do not multiply.
func (v *verifier) absolutes(p place, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range canon.Names(value) {
			one := value[name]
			path, _ := one.(string)
			at := place{file: p.file, pointer: canon.Cut(canon.Pointer(p.pointer, canon.Cut(name)))}
			switch {
			case trial.NamesFile(name) && absolute(path):
				v.add("SU20", at, "the path %s is absolute", canon.Quote(path))
			case !trial.Data.Has(name):
				v.absolutes(at, one)
			}
		}
	case []any:
		for i, one := range value {
			v.absolutes(place{file: p.file, pointer: canon.Cut(p.pointer + "/" + strconv.Itoa(i))}, one)
		}
	}
}

// additions checks SU25.
func (v *verifier) additions() {
	if _, there := v.run.obj["run_group"]; there {
		g := v.run.at("run_group")
		index, ok1 := canon.Whole(g.obj["index"])
		of, ok2 := canon.Whole(g.obj["of"])
		v.must(trial.TextOf(g.obj, "run_id") != "", "SU25", g, "run_id", "no id of the runs that belong together")
		v.must(ok1 && ok2 && index >= 1 && index <= of, "SU25", g, "index", "no number from 1 to the member of")
	}
	if _, there := v.run.obj["agent"]; there {
		a := v.run.at("agent")
		v.must(slices.Contains([]string{"http", "exec", "replay"}, trial.TextOf(a.obj, "transport")), "SU25", a, "transport", "neither http nor exec nor replay")
		isolation, there := a.obj["isolation"]
		_, isText := isolation.(string)
		v.must(!there || isText, "SU25", a, "isolation", "not a string")
	}
}

// stats checks SU26.
func (v *verifier) stats() {
	s := v.run.at("stats")
	ids := len(v.run.each("selected_case_ids"))
	total, haveTotal := s.number("cases_total")
	completed, haveCompleted := s.number("cases_completed")
	failed, haveFailed := s.number("cases_failed")
	v.must(!haveTotal || total == float64(ids), "SU26", s, "cases_total", "%d cases are selected", ids)
	v.must(!haveTotal || !haveCompleted || !haveFailed || completed+failed == total, "SU26", s, "cases_completed", "with cases_failed not cases_total")
	v.must(!haveFailed || v.broken || failed == float64(v.failed), "SU26", s, "cases_failed", "%d cases have failed", v.failed)
}

// seal checks SU23 and SU24, if run.json has a seal.
func (v *verifier) seal(names []string, items []place) {
	if _, sealed := v.run.obj["artifacts"]; !sealed {
		return
	}
	seal := v.run.at("artifacts")
	v.must(seal.obj != nil, "SU23", v.run, "artifacts", "no object of hashes by the names of files")
	kept := map[string]bool{trial.RunFile: true, trial.EvaluationFile: true, trial.SignatureFile: true}
	for _, item := range items {
		kept[trial.TextOf(item.obj, "href")] = true
		v.must(trial.TextOf(item.obj, "sha256") != "", "SU24", item, "sha256", "missing in a sealed directory")
	}
	for _, name := range canon.Names(seal.obj) {
		there := v.names[name] && (isCase(name) || name == trial.ManifestFile)
		v.must(there, "SU23", seal, name, "neither the file of a case nor the manifest of this directory")
	}
	for _, name := range names {
		if isCase(name) || name == trial.ManifestFile {
			sum, _ := v.dir.Sum(name)
			v.must(seal.obj[name] == "sha256:"+sum, "SU23", seal, name, "not the SHA-256 of the file")
		} else if !kept[name] && (items != nil || !v.names[trial.ManifestFile]) {
			v.add("SU24", place{file: name}, "neither sealed nor in the manifest")
		}
	}
}
