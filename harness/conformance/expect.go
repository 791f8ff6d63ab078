package conformance

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// expectation is the required result of a vector. A nil or empty member is not checked.
type expectation struct {
	codes          []int
	stdout, stderr stream
	artifacts      *bool
	exist, absent  []string
	leaves         bool     // a command may still run at the end
	freeLineEnds   bool     // CRLF counts as LF
	ownWords       []string // stdout, stderr, log: not compared with the reference
	log            logExpectation
}

// stream is the required text of one stream.
type stream struct {
	exact    *string
	contains []string
	pattern  *regexp.Regexp
	sha256   string
}

type logExpectation struct {
	exact      *string
	sha256     string
	events     *[]string
	markers    []string
	consistent bool // sections and events have the output of the streams, in order
	pattern    *regexp.Regexp
	patternRFC *regexp.Regexp
	dir        *string
	mode       *fs.FileMode
	dirMode    *fs.FileMode
}

func (e *expectation) field(files fs.FS) field {
	members := map[string]field{
		"exit_code":         e.code,
		"exit_code_oneOf":   each(e.code),
		"artifacts_created": given(&e.artifacts, boolean),
		"file_exists":       listOf(&e.exist, local),
		"file_not_exists":   listOf(&e.absent, local),
		"leaves_processes":  boolean(&e.leaves),
		"line_ends_free":    boolean(&e.freeLineEnds),
		"own_words":         words(&e.ownWords, "stdout", "stderr", "log"),
	}
	e.stdout.members("stdout", members)
	e.stderr.members("stderr", members)
	e.log.members(members, files)
	take := object(nil, members)
	return func(n node) error {
		if err := take(n); err != nil {
			return err
		}
		if len(e.codes) == 0 {
			return n.fault("lacks the member %q", "exit_code")
		}
		if e.artifacts != nil && !*e.artifacts && e.log.wanted() {
			return n.fault("expects a log of what creates none")
		}
		return nil
	}
}

func (e *expectation) code(n node) error {
	var code int
	if err := whole(&code, 0, 255)(n); err != nil {
		return err
	}
	e.codes = append(e.codes, code)
	return nil
}

func (s *stream) members(name string, m map[string]field) {
	m[name] = givenText(&s.exact, text)
	m[name+"_base64"] = givenText(&s.exact, encoded)
	m[name+"_contains"] = texts(&s.contains)
	m[name+"_pattern"] = expression(&s.pattern)
	m[name+"_sha256"] = hash(&s.sha256)
}

func (l *logExpectation) members(m map[string]field, files fs.FS) {
	m["log"] = givenText(&l.exact, text)
	m["log_base64"] = givenText(&l.exact, encoded)
	m["log_golden"] = givenText(&l.exact, func(to *string) field { return goldenLog(to, files) })
	m["log_sha256"] = hash(&l.sha256)
	m["log_events"] = given(&l.events, texts)
	m["log_content_markers"] = texts(&l.markers)
	m["log_matches_streams"] = boolean(&l.consistent)
	m["log_file_pattern"] = expression(&l.pattern)
	m["log_file_pattern_rfc"] = expression(&l.patternRFC)
	m["log_file_in_dir"] = given(&l.dir, local)
	m["log_file_mode"] = given(&l.mode, permissions)
	m["log_dir_mode"] = given(&l.dirMode, permissions)
}

// wanted says whether anything about a log is expected.
func (l *logExpectation) wanted() bool {
	return l.exact != nil || l.sha256 != "" || l.events != nil || l.markers != nil || l.consistent ||
		l.pattern != nil || l.patternRFC != nil || l.dir != nil || l.mode != nil || l.dirMode != nil
}

func words(to *[]string, known ...string) field {
	return each(func(n node) error {
		var w string
		err := oneOf(&w, known...)(n)
		if err == nil && slices.Contains(*to, w) {
			err = n.fault("%q is there already", w)
		}
		*to = append(*to, w)
		return err
	})
}

// hash reads 64 lower-case hexadecimal digits.
func hash(to *string) field {
	return textAs(to, func(s string) (string, error) {
		if len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
			return "", errors.New("must be 64 lower-case hexadecimal digits")
		}
		return s, nil
	})
}
