package change

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func aFile(path string, size int64) Change {
	return Change{Path: path, Kind: KindFile, Size: size, SHA256: sha256.Sum256([]byte(path))}
}

// aGiant is a file that is too large to be read for its digest.
func aGiant(path string) Change    { return Change{Path: path, Kind: KindFile, Size: math.MaxInt64} }
func aFolder(path string) Change   { return Change{Path: path, Kind: KindFolder} }
func aLink(path, to string) Change { return Change{Path: path, Kind: KindLink, Target: to} }
func aDevice(path string) Change   { return Change{Path: path, Kind: KindOther} }

// aDeletion is the deletion of an entry of that kind.
func aDeletion(path string, was Kind) Change {
	return inPlaceOf(Change{Path: path, Kind: KindDeleted}, was)
}

func inPlaceOf(c Change, was Kind) Change {
	c.Before = &Seen{Kind: was}
	return c
}

func TestJudge(t *testing.T) {
	out := Rules{Roots: []string{"out", "pkg/gen"}, MaxFiles: 10, MaxBytes: 100}
	all := Rules{AnyRoot: true, MaxFiles: 10, MaxBytes: 100, Links: true}
	declared := func(paths ...string) Rules {
		r := out
		r.Declared = paths
		r.Exists = func(p string) Kind {
			return map[string]Kind{"out/there": KindFile, "out/folder": KindFolder, "out/link": KindLink, "out/folder/x": KindFile}[p]
		}
		return r
	}
	linked := all
	linked.Exists = func(p string) Kind {
		return map[string]Kind{"old": KindLink, "dir": KindFolder, "dir/file": KindFile, "dir/up": KindLink}[p]
	}
	below := all
	below.Below = func(folder string) iter.Seq[string] {
		return slices.Values(map[string][]string{"sub": {"sub/a", "sub/a/.git", "sub/a/.git/config"}, "lib": {"lib/a"}}[folder])
	}
	deep := strings.Repeat("d/", 600) + "f"
	long := strings.Repeat("n", 300)
	const none = ""
	for _, c := range []struct {
		name    string
		rules   Rules
		changes []Change
		want    string // reasons, separated by " | "
	}{
		{"nothing", out, nil, none},
		{"nothing is allowed", Rules{}, []Change{aFile("out/a", 0)}, "OUTPUT_LIMIT | WRITE_OUTSIDE_ROOT out/a"},
		{"nothing happened, nothing is allowed", Rules{}, nil, none},

		{"file beneath a root", out, []Change{aFile("out/a", 1)}, none},
		{"file deep beneath a root", out, []Change{aFolder("out"), aFolder("out/b"), aFile("out/b/c", 1)}, none},
		{"empty file", out, []Change{aFile("out/a", 0)}, none},
		{"second root", out, []Change{aFolder("pkg"), aFolder("pkg/gen"), aFile("pkg/gen/a", 1)}, none},
		{"file beside a root", out, []Change{aFile("src/a", 1)}, "WRITE_OUTSIDE_ROOT src/a"},
		{"file at the top", out, []Change{aFile("a", 1)}, "WRITE_OUTSIDE_ROOT a"},
		{"file with the name of a root", out, []Change{aFile("out", 1)}, "WRITE_OUTSIDE_ROOT out"},
		{"name that a root begins", out, []Change{aFile("outer", 1), aFile("out.txt", 1)}, "WRITE_OUTSIDE_ROOT out.txt | WRITE_OUTSIDE_ROOT outer"},
		{"root in another case", out, []Change{aFile("Out/a", 1)}, "WRITE_OUTSIDE_ROOT Out/a"},
		{"file above a root", out, []Change{aFile("pkg/a", 1)}, "WRITE_OUTSIDE_ROOT pkg/a"},
		{"folder outside", out, []Change{aFolder("src")}, "WRITE_OUTSIDE_ROOT src"},
		{"folder beside a root", out, []Change{aFolder("pkg/other")}, "WRITE_OUTSIDE_ROOT pkg/other"},
		{"folder above a root in the place of a file", out, []Change{inPlaceOf(aFolder("pkg"), KindFile)}, "WRITE_OUTSIDE_ROOT pkg"},
		{"root in the place of a link", out, []Change{inPlaceOf(aFolder("out"), KindLink)}, "WRITE_OUTSIDE_ROOT out"},
		{"empty root", Rules{Roots: []string{""}, MaxFiles: 9, MaxBytes: 9}, []Change{aFile("a", 1)}, "WRITE_OUTSIDE_ROOT a"},
		{"everywhere", all, []Change{aFile("a", 1), aFolder("src"), aFile("src/b", 1)}, none},

		{"deleted beneath a root", out, []Change{aDeletion("out/a", KindFile)}, none},
		{"deleted outside", out, []Change{aDeletion("src/a", KindFile)}, "WRITE_OUTSIDE_ROOT src/a"},
		{"deleted root", out, []Change{aDeletion("out", KindFolder)}, none},
		{"deleted file with the name of a root", out, []Change{aDeletion("out", KindFile)}, "WRITE_OUTSIDE_ROOT out"},
		{"deleted folder above a root", out, []Change{aDeletion("pkg", KindFolder)}, "WRITE_OUTSIDE_ROOT pkg"},
		{"deleted device", all, []Change{aDeletion("dev", KindOther)}, none},
		{"deleted bad name", out, []Change{aDeletion("out/a\nb", KindFile), aDeletion("out/\xff", KindFile)}, none},
		{"deleted bad name outside", out, []Change{aDeletion("src/a\nb", KindFile)}, `WRITE_OUTSIDE_ROOT "src/a\nb"`},
		{"deleted path that leaves", all, []Change{aDeletion("../a", KindFile), aDeletion("/etc", KindFolder), aDeletion("", KindFolder)},
			`OUTPUT_NAME "" | OUTPUT_NAME "../a" | OUTPUT_NAME "/etc"`},

		{"hook", all, []Change{aFile(".git/hooks/x", 1)}, "WRITE_OUTSIDE_ROOT .git/hooks/x"},
		{"hook beneath a root", out, []Change{aFile("out/.git/hooks/x", 1)}, "WRITE_OUTSIDE_ROOT out/.git/hooks/x"},
		{"configuration of a repository below", all, []Change{aFile("sub/.git/config", 1)}, "WRITE_OUTSIDE_ROOT sub/.git/config"},
		{"control folder made", all, []Change{aFolder(".fiador")}, "WRITE_OUTSIDE_ROOT .fiador"},
		{"control file deleted", all, []Change{aDeletion(".fiador/policy.rego", KindFile)}, "WRITE_OUTSIDE_ROOT .fiador/policy.rego"},
		{"control path in another case", all, []Change{aFile(".GIT/config", 1)}, "WRITE_OUTSIDE_ROOT .GIT/config"},
		{"control path with a space", all, []Change{aFile(".git /config", 1)}, `OUTPUT_NAME ".git /config" | WRITE_OUTSIDE_ROOT ".git /config"`},
		{"control path as a link", all, []Change{aLink(".git", "a")}, "WRITE_OUTSIDE_ROOT .git"},
		{"pipeline", all, []Change{aFolder(".github"), aFolder(".github/workflows")}, "WRITE_OUTSIDE_ROOT .github/workflows"},
		{"beside pipelines", all, []Change{aFolder(".github"), aFile(".github/a.md", 1)}, none},
		{"link in the place of a folder with pipelines", all, []Change{aFolder("a"), aLink("b/.github", "../a")}, "WRITE_OUTSIDE_ROOT b/.github"},
		{"folder with pipelines deleted", all, []Change{aDeletion(".github", KindFolder)}, "WRITE_OUTSIDE_ROOT .github"},
		{"folder with pipelines replaced", all, []Change{inPlaceOf(aFile(".github", 1), KindFolder)}, "WRITE_OUTSIDE_ROOT .github"},
		{"file with the name of one deleted", all, []Change{aDeletion(".github", KindFile)}, none},
		{"folder with a repository deleted", below, []Change{aDeletion("sub", KindFolder)}, "WRITE_OUTSIDE_ROOT sub"},
		{"folder with a repository replaced", below, []Change{inPlaceOf(aFile("sub", 1), KindFolder)}, "WRITE_OUTSIDE_ROOT sub"},
		{"folder without one deleted", below, []Change{aDeletion("lib", KindFolder)}, none},

		{"device", all, []Change{aDevice("a")}, "OUTPUT_KIND a"},
		{"device outside", out, []Change{aDevice("a")}, "OUTPUT_KIND a | WRITE_OUTSIDE_ROOT a"},
		{"unknown kind", all, []Change{{Path: "a", Kind: "door"}}, "OUTPUT_KIND a"},
		{"no kind", all, []Change{{Path: "a"}}, "OUTPUT_KIND a"},
		{"file in a file", all, []Change{aFile("a", 1), aFile("a/b", 1)}, "OUTPUT_KIND a/b"},
		{"file in a link", all, []Change{aFolder("d"), aLink("a", "d"), aFile("a/b", 1)}, "OUTPUT_KIND a/b"},
		{"file in a deleted folder", all, []Change{aDeletion("a", KindFolder), aFile("a/b", 1)}, "OUTPUT_KIND a/b"},
		{"deleted in a deleted folder", all, []Change{aDeletion("a", KindFolder), aDeletion("a/b", KindFile)}, none},

		{"link where none is accepted", out, []Change{aLink("out/a", "b")}, "OUTPUT_KIND out/a"},
		{"link inside", all, []Change{aFile("b", 1), aLink("a", "b")}, none},
		{"link to nothing", all, []Change{aLink("a", "nothing/there")}, none},
		{"link up and down", all, []Change{aLink("x/y/a", "../../z/./b")}, none},
		{"link to the folder above", all, []Change{aLink("x/a", "..")}, none},
		{"link out", all, []Change{aLink("a", "..")}, "OUTPUT_KIND a"},
		{"link out and in again", all, []Change{aLink("x/a", "../../work/b")}, "OUTPUT_KIND x/a"},
		{"link out after a detour", all, []Change{aLink("a", "x/../../b")}, "OUTPUT_KIND a"},
		{"absolute link", all, []Change{aLink("a", "/etc/passwd")}, "OUTPUT_KIND a"},
		{"absolute link to the inside", all, []Change{aLink("a", "/work/b")}, "OUTPUT_KIND a"},
		{"empty link", all, []Change{aLink("a", "")}, "OUTPUT_KIND a"},
		{"link to a control path", all, []Change{aLink("a", ".git/hooks")}, "OUTPUT_KIND a"},
		{"link to a bad name", all, []Change{aLink("a", "b\nc"), aLink("b", "\xff"), aLink("c", "a\x00b")}, "OUTPUT_KIND a | OUTPUT_KIND b | OUTPUT_KIND c"},
		{"link with a long target", all, []Change{aLink("a", strings.Repeat("./", 3000)+"b")}, "OUTPUT_KIND a"},
		{"link through a link", all, []Change{aFolder("d"), aLink("l", "d"), aLink("a", "l/b")}, "OUTPUT_KIND a"},
		{"link through a link and back", all, []Change{aFolder("d"), aFolder("d/e"), aLink("l", "d/e"), aLink("a", "l/../../x")}, "OUTPUT_KIND a"},
		{"link to a link", all, []Change{aFile("f", 1), aLink("l", "f"), aLink("a", "l")}, none},
		{"link to a link, as a folder", all, []Change{aFolder("f"), aLink("l", "f"), aLink("a", "l/")}, "OUTPUT_KIND a"},
		{"link to a link that leaves", all, []Change{aLink("l", "/etc"), aLink("a", "l")}, "OUTPUT_KIND l"},
		{"link to a link that was there", linked, []Change{aLink("a", "old")}, "OUTPUT_KIND a"},
		{"link through a link that was there", linked, []Change{aLink("a", "dir/up/x")}, "OUTPUT_KIND a"},
		{"link to what was there", linked, []Change{aLink("a", "dir/file")}, none},
		{"link to a link that was there and is a file", linked, []Change{inPlaceOf(aFile("old", 1), KindLink), aLink("a", "old")}, none},

		{"newline", all, []Change{aFile("a\nb", 1)}, `OUTPUT_NAME "a\nb"`},
		{"escape sequence", all, []Change{aFile("a\x1b[2Jb", 1)}, `OUTPUT_NAME "a\x1b[2Jb"`},
		{"bad UTF-8", all, []Change{aFile("a/\xff\xfe", 1)}, `OUTPUT_NAME "a/\xff\xfe"`},
		{"right to left", all, []Change{aFile("a\u202egpj.exe", 1)}, `OUTPUT_NAME "a\u202egpj.exe"`},
		{"not NFC", all, []Change{aFile("cafe\u0301", 1)}, `OUTPUT_NAME "cafe\u0301"`},
		{"NFC", all, []Change{aFile("caf\u00e9", 1)}, none},
		{"backslash", all, []Change{aFile(`a\b`, 1)}, `OUTPUT_NAME "a\\b"`},
		{"device of Windows", all, []Change{aFile("nul.txt", 1)}, `OUTPUT_NAME "nul.txt"`},
		{"trailing dot", all, []Change{aFolder("a.")}, `OUTPUT_NAME "a."`},
		{"stream", all, []Change{aFile("a:b", 1)}, `OUTPUT_NAME "a:b"`},
		{"quotation mark", out, []Change{aFile(`"a"`, 1)}, `WRITE_OUTSIDE_ROOT "\"a\""`},
		{"not clean", all, []Change{aFile("a//b", 1), aFile("./a", 1)}, "OUTPUT_NAME ./a | OUTPUT_NAME a//b"},
		{"too deep", all, []Change{aFile(deep, 1)}, `OUTPUT_NAME "` + deep[:256] + `\u2026"`},
		{"too long", all, []Change{aFile(long, 1)}, `OUTPUT_NAME "` + long[:256] + `\u2026"`},
		{"name of what is applied", all, []Change{aFile("x/.fiador-apply-0011223344556677", 1)}, "OUTPUT_NAME x/.fiador-apply-0011223344556677"},
		{"name of what is applied, in another case", all, []Change{aFolder(".Fiador-Apply-x")}, "OUTPUT_NAME .Fiador-Apply-x"},
		{"name of what is applied, deleted", all, []Change{aDeletion(".fiador-apply-x", KindFile)}, none},
		{"roots of a bundle", all, []Change{aFolder("context"), aFile("context/a", 1), aFile("calls", 1)}, none},

		{"twins", all, []Change{aFile("README", 1), aFile("readme", 1)}, "OUTPUT_NAME README | OUTPUT_NAME readme"},
		{"twins outside ASCII", all, []Change{aFile("stra\u00dfe", 1), aFile("STRASSE", 1)}, "OUTPUT_NAME STRASSE | OUTPUT_NAME stra\u00dfe"},
		{"twins in Greek", all, []Change{aFile("\u03c3", 1), aFile("\u03c2", 1)}, "OUTPUT_NAME \u03c2 | OUTPUT_NAME \u03c3"},
		{"folder twins", all, []Change{aFolder("A"), aFolder("a"), aFile("a/x", 1), aFile("A/y", 1)}, "OUTPUT_NAME A | OUTPUT_NAME a"},
		{"twin of a folder that was there", all, []Change{aFolder("A"), aFile("a/x", 1)}, "OUTPUT_NAME A"},
		{"twin of a folder from which something is gone", all, []Change{aFolder("A"), aDeletion("a/x", KindFile)}, "OUTPUT_NAME A"},
		{"renamed in case alone", all, []Change{aDeletion("readme", KindFile), aFile("README", 1)}, none},
		{"folder renamed in case alone", all, []Change{aDeletion("a", KindFolder), aDeletion("a/x", KindFile), aFolder("A"), aFile("A/x", 1)}, none},
		{"twice", all, []Change{aFile("a", 1), aDeletion("a", KindFile)}, "OUTPUT_NAME a"},

		{"as many files as allowed", all, manyFiles(10, 10), none},
		{"one more", all, manyFiles(11, 1), "OUTPUT_LIMIT"},
		{"one more, a link", all, append(manyFiles(10, 1), aLink("l", "f0000")), "OUTPUT_LIMIT"},
		{"deletions do not count", all, append(manyFiles(10, 1), aDeletion("x", KindFile)), none},
		{"folders count apart", all, append(manyFiles(10, 1), aFolder("d")), none},
		{"too many folders", all, manyFolders(11), "OUTPUT_LIMIT"},
		{"as many bytes as allowed", all, []Change{aFile("a", 60), aFile("b", 40)}, none},
		{"one byte more", all, []Change{aFile("a", 60), aFile("b", 41)}, "OUTPUT_LIMIT"},
		{"sparse giant", all, []Change{aGiant("a")}, "OUTPUT_LIMIT"},
		{"sparse giants", all, []Change{aGiant("a"), aGiant("b"), aFile("c", 1)}, "OUTPUT_LIMIT"},
		{"file that nobody read", all, []Change{{Path: "a", Kind: KindFile, Size: 1}}, "OUTPUT_LIMIT"},
		{"negative size", all, []Change{aFile("a", -1)}, "OUTPUT_LIMIT"},

		{"declared and written", declared("out/a"), []Change{aFile("out/a", 1)}, none},
		{"declared and there before", declared("out/there"), nil, none},
		{"declared, not clean", declared("./out//there"), nil, none},
		{"declared and missing", declared("out/a"), nil, "OUTPUT_MISSING out/a"},
		{"declared twice and missing", declared("out/a", "./out/a"), nil, "OUTPUT_MISSING out/a"},
		{"declared, nothing known", Rules{Declared: []string{"out/a"}}, nil, "OUTPUT_MISSING out/a"},
		{"declared and deleted", declared("out/there"), []Change{aDeletion("out/there", KindFile)}, "OUTPUT_MISSING out/there"},
		{"declared, folder deleted", declared("out/folder/x"), []Change{aDeletion("out/folder", KindFolder)}, "OUTPUT_MISSING out/folder/x"},
		{"declared, folder is a file now", declared("out/folder/x"), []Change{inPlaceOf(aFile("out/folder", 1), KindFolder)}, "OUTPUT_MISSING out/folder/x"},
		{"declared is a folder", declared("out/a"), []Change{aFolder("out/a")}, "OUTPUT_KIND out/a"},
		{"declared was a folder", declared("out/folder"), nil, "OUTPUT_KIND out/folder"},
		{"declared is a link", declared("out/a"), []Change{aLink("out/a", "there")}, "OUTPUT_KIND out/a"},
		{"declared was a link", declared("out/link"), nil, "OUTPUT_KIND out/link"},
		{"declared is a pipe", declared("out/a"), []Change{aDevice("out/a")}, "OUTPUT_KIND out/a"},
		{"declared with a bad name", declared("out/a\nb"), nil, `OUTPUT_MISSING "out/a\nb"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(c.changes, c.rules)
			if got := strings.Join(v.Reasons, " | "); got != c.want {
				t.Errorf("reasons\n%s\nwant\n%s", got, c.want)
			}
			checkVerdict(t, c.changes, c.rules, v)
		})
	}
}

// checkVerdict checks the properties of every verdict.
func checkVerdict(t *testing.T, changes []Change, r Rules, v Verdict) {
	t.Helper()
	if len(v.Reasons) > 0 && len(v.Accepted) > 0 {
		t.Error("there are reasons, and changes are accepted")
	}
	if len(v.Reasons) == 0 && len(v.Accepted) != len(changes) {
		t.Errorf("%d of %d changes are accepted, and there is no reason", len(v.Accepted), len(changes))
	}
	sum := int64(0)
	for i, c := range v.Outputs {
		sum += c.Size
		if c.Kind != KindFile || c.SHA256 == [32]byte{} || i > 0 && v.Outputs[i-1].Path == c.Path {
			t.Errorf("%q is among the outputs", c.Path)
		}
	}
	if len(v.Outputs) > r.MaxFiles || sum > r.MaxBytes {
		t.Errorf("outputs over the limits: %d files, %d bytes", len(v.Outputs), sum)
	}
	for _, reason := range v.Reasons {
		if strings.ContainsFunc(reason, func(r rune) bool { return r < ' ' || r == 0xfffd }) {
			t.Errorf("reason %q does not print", reason)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	mixed := slices.Clone(changes)
	rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	again := Judge(mixed, r)
	if !slices.Equal(again.Reasons, v.Reasons) || pathsOf(again.Accepted) != pathsOf(v.Accepted) || pathsOf(again.Outputs) != pathsOf(v.Outputs) {
		t.Error("another order of changes gives another verdict")
	}
}

func pathsOf(list []Change) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%q ", c.Path)
	}
	return b.String()
}

func manyFiles(n int, size int64) []Change {
	var list []Change
	for i := range n {
		list = append(list, aFile(fmt.Sprintf("f%04d", i), size))
	}
	return list
}

func manyFolders(n int) []Change {
	var list []Change
	for i := range n {
		list = append(list, aFolder(fmt.Sprintf("d%04d", i)))
	}
	return list
}

// TestJudgeOutputs: Outputs does not depend on the reasons. It is in the order of UTF-16,
// without invalid names, and within the limits.
func TestJudgeOutputs(t *testing.T) {
	r := Rules{Roots: []string{"out"}, MaxFiles: 3, MaxBytes: 100}
	v := Judge([]Change{
		aFile("out/\U00010000", 1), aFile("out/\uffee", 1), aFile("a", 1), aFile("out/a\nb", 1), aFile("out/B", 1), aFile("out/b", 1),
		aDevice("out/c"), aGiant("out/d"), aFolder("out/e"), aDeletion("out/f", KindFile), aFile("out/\uffef", 1),
	}, r)
	if got, want := pathsOf(v.Outputs), `"a" "out/`+"\U00010000"+`" "out/`+"\uffee"+`" `; got != want {
		t.Errorf("outputs %s, want %s", got, want)
	}
	v = Judge([]Change{aFile("out/b", 60), aFile("out/a", 60), aFile("out/c", 1)}, r)
	if got, want := pathsOf(v.Outputs), `"out/a" `; got != want {
		t.Errorf("outputs %s, want %s", got, want)
	}
}

// TestJudgeFlood: for ten thousand bad files, each reason names a hundred paths, always the
// same ones, and a code without a path.
func TestJudgeFlood(t *testing.T) {
	var changes []Change
	for i := range 10_000 {
		changes = append(changes, aFile(fmt.Sprintf("src/%04d\n", i), 1))
	}
	v := Judge(changes, Rules{Roots: []string{"out"}, MaxFiles: 100, MaxBytes: 1 << 30})
	checkVerdict(t, changes, Rules{Roots: []string{"out"}, MaxFiles: 100, MaxBytes: 1 << 30}, v)
	if len(v.Reasons) != 1+101+101 {
		t.Fatalf("%d reasons", len(v.Reasons))
	}
	for at, want := range map[int]string{
		0: "OUTPUT_LIMIT", 1: "OUTPUT_NAME", 2: `OUTPUT_NAME "src/0000\n"`, 101: `OUTPUT_NAME "src/0099\n"`,
		102: "WRITE_OUTSIDE_ROOT", 103: `WRITE_OUTSIDE_ROOT "src/0000\n"`,
	} {
		if v.Reasons[at] != want {
			t.Errorf("reason %d is %q, want %q", at, v.Reasons[at], want)
		}
	}
	if len(v.Outputs) != 0 {
		t.Errorf("%d outputs with bad names", len(v.Outputs))
	}
}

// TestJudgeMany: ten thousand good files are accepted if the limit allows that many.
func TestJudgeMany(t *testing.T) {
	changes := manyFiles(10_000, 1)
	v := Judge(changes, Rules{AnyRoot: true, MaxFiles: 10_000, MaxBytes: 10_000})
	if len(v.Reasons) != 0 || len(v.Accepted) != 10_000 || len(v.Outputs) != 10_000 {
		t.Errorf("%d reasons, %d accepted, %d outputs", len(v.Reasons), len(v.Accepted), len(v.Outputs))
	}
}

// TestJudgeDeep: paths that no system call accepts are invalid names, and cost no more time
// than others.
func TestJudgeDeep(t *testing.T) {
	deep := strings.Repeat("d/", 1<<16)
	r := Rules{AnyRoot: true, Links: true, MaxFiles: 9, MaxBytes: 9}
	changes := []Change{aFile(deep+"f", 1), aDeletion(deep+"g", KindFile), aLink("l", deep+"f"), aLink(deep+"l", "f")}
	if v := Judge(changes, r); len(v.Reasons) != 3 || v.Reasons[1] != "OUTPUT_KIND l" {
		t.Errorf("reasons %.100q", v.Reasons)
	}
}

// TestJudgeLeavesChangesAlone: Judge does not reorder the caller's list.
func TestJudgeLeavesChangesAlone(t *testing.T) {
	changes := []Change{aFile("b", 1), aFile("a", 1)}
	Judge(changes, Rules{AnyRoot: true, MaxFiles: 2, MaxBytes: 2})
	if pathsOf(changes) != `"b" "a" ` {
		t.Error("the list was changed")
	}
}

// FuzzJudge: for any path and target, an accepted change neither leaves the folder nor is a
// control path.
func FuzzJudge(f *testing.F) {
	for _, seed := range [][2]string{{"a", "b"}, {"out/a", "../b"}, {".git/x", "/"}, {"a\nb", "x/../.."}, {"\xff", "a/./b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, target string) {
		changes := []Change{aFile(path, 1), aLink("d/e/l", target)}
		r := Rules{AnyRoot: true, Links: true, MaxFiles: 9, MaxBytes: 9}
		v := Judge(changes, r)
		checkVerdict(t, changes, r, v)
		if len(v.Reasons) > 0 {
			return
		}
		if !IsClean(path) || strings.HasPrefix(path, ".git") && (len(path) == 4 || path[4] == '/') {
			t.Errorf("path %q is accepted", path)
		}
		depth := 2
		for seg := range strings.SplitSeq(target, "/") {
			switch seg {
			case "", ".":
			case "..":
				depth--
			default:
				depth++
			}
			if depth < 0 {
				t.Errorf("target %q is accepted", target)
			}
		}
		if target == "" || target[0] == '/' {
			t.Errorf("target %q is accepted", target)
		}
	})
}
