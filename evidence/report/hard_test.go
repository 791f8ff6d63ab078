package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

var update = flag.Bool("update", false, "write the golden reports anew")

// hostile has texts that have a meaning in one of the formats, or are invisible.
var hostile = []string{
	"one\ntwo\r\n::error file=x,line=1::injected\r::add-mask::x",
	"100% %0A::warning::x %25 ##[error]x ::stop-commands::t",
	"\u0085::error::nel \u2028 ls \u2029 ps \v\f\x00 end",
	"</failure>]]> <!-- & --> <![CDATA[ \"quoted\" 'single' &lt; &#x0;",
	"</td></tr></table><script>alert(1)</script> | a | b |\n|---|---|",
	"`code` ``two`` ```\nfence\n``` " + strings.Repeat("`", 100) + " @team #1 GH-1 :smile: [x](http://e.com) ![i](u) <http://e.com> www.e.com a@b.com",
	"\x1b[31mred\x1b[0m \x1b]8;;http://e.com\x07link \u202eevil\u202c \u200b \u00ad \ufeff",
	"emoji 👩‍💻 \U0001f600 \uffff \ud7ff \U0010ffff \xff broken",
	"{0} {{x}} [link](0) [a\\](b) \\[c\\](d)",
	"  # heading\n- item\n> quote\n---\n    code\\",
	" `",
	"||",
	"\\|`\\",
}

func denial(id, pointer, text, fix string) kernel.Result {
	return kernel.Result{
		Module: "gate.builtin", ID: id, Path: pointer, Text: text, Fix: fix,
		Title: "Title of " + id, Why: "Why " + id + " is there",
	}
}

func refused(path, src string, findings ...kernel.Result) report.Item {
	return item(path, src, kernel.Decision{Outcome: kernel.OutcomeRefuse, Findings: findings})
}

func accepted(path, src string, notes ...kernel.Result) report.Item {
	return item(path, src, kernel.Decision{
		Outcome: kernel.OutcomeBundle, Bundle: &kernel.Bundle{ID: "bundle_0123456789abcdef"}, Notes: notes,
	})
}

func asked(path, src string, questions ...kernel.Result) report.Item {
	return item(path, src, kernel.Decision{
		Outcome: kernel.OutcomeClarify, Findings: questions,
		Bundle: &kernel.Bundle{ID: "bundle_1", UnresolvedQuestions: make([]kernel.Question, len(questions))},
	})
}

func item(path, src string, d kernel.Decision) report.Item {
	return report.Item{
		Path: path, Source: []byte(src), SHA256: canon.Sum([]byte(src)), Decision: d,
		Result: []byte(`{"kernel_result_kind":"` + string(d.Outcome) + `"}` + "\n"),
	}
}

func broken(path, src string, e result.RunError) report.Item {
	i := report.Item{Path: path, Err: &e}
	if src != "" {
		i.Source, i.SHA256 = []byte(src), canon.Sum([]byte(src))
	}
	return i
}

// hardItems are the cases that a format can get wrong.
func hardItems() []report.Item {
	const crlf = "{\r\n  \"goal\": \"👩‍💻 ship\", \"actions\": [\r\n    {\"kind\":\"run\",\r\n     \"argv\":[\"😀\",\"x\"]}\r\n  ]\r\n}\r\n"
	var all []kernel.Result
	for k, text := range hostile {
		all = append(all, denial("HOSTILE", "/actions/0/argv/1", text, "fix "+hostile[(k+1)%len(hostile)]))
	}
	line := refused("batch.jsonl", `{"goal":"é","actions":[{"kind":"run","argv":["rm"]}]}`+"\n", denial("CMD_NOT_ALLOWED", "/actions/0/argv/0", `"rm" is not allowed`, ""))
	line.Line = 7
	fine := accepted("batch.jsonl", `{"goal":"x"}`)
	fine.Line = 8
	other := denial("CMD_NOT_ALLOWED", "/actions/0", "an organisation's own", "ask first")
	other.Module, other.Title = "gate.org.x", ""
	return []report.Item{
		accepted("intents/fine.json", `{"goal":"x"}`),
		refused("intents/crlf.json", crlf,
			denial("CMD_NOT_ALLOWED", "/actions/0/argv/0", "the first", "use another"),
			denial("CMD_NOT_ALLOWED", "/actions/0/argv/1", "the second", "use another"),
			denial("DONE_UNDEFINED", "/constraints", "nothing there", "add one"),
			other,
		),
		refused("-", crlf, all...),
		asked("questions, 100%: a|b`c`.json", `{"goal":"x"}`,
			kernel.Result{Module: "gate.builtin", ID: "FREE", Path: "/goal", Text: "which one?", Title: "Open", Priority: 90},
			kernel.Result{Module: "gate.builtin", ID: "CHOICE", Path: "", Text: "a or b?", Options: []string{"a", hostile[5], "b"}}),
		accepted("notes \u202e\n.json", `{"goal":"x"}`, denial("NOTED", "/goal", hostile[0], ""), denial("NOTED", "/goal", hostile[0], "")),
		line, fine,
		broken("intents/syntax.json", "{\"goal\":\n \"😀\" oops}", result.RunError{
			Code: result.CodeNotJSON, Message: "intents/syntax.json: byte 17, /goal: found \"oops\"",
			Details: map[string]any{"file": "intents/syntax.json", "pointer": "/goal", "offset": int64(17)},
		}),
		broken("intents/members.json", "{\"gaol\":\"x\",\n\"inputs\":5}", result.RunError{
			Code: result.CodeNotIntent, Message: "intents/members.json: /gaol: unknown member (and 1 more)", Hint: "fiador schema intent",
			Details: map[string]any{"file": "intents/members.json", "pointer": "/gaol", "violations": []any{
				map[string]any{"pointer": "/gaol", "message": "unknown member"},
				map[string]any{"pointer": "/inputs", "message": "not a list"},
			}},
		}),
		broken("gone.json", "", result.RunError{Code: result.CodeUnreadable, Message: "gone.json: no such file", Hint: "name a file that exists"}),
	}
}

// changeItems are the intent of a change, and changed paths that it does not announce.
func changeItems() []report.Item {
	items := []report.Item{accepted("intents/fine.json", `{"goal":"x"}`)}
	for k, path := range append([]string{"src/a b.go", "./-", "../other/x", "\xff\n.md", "a|b`c`"}, hostile...) {
		items = append(items, report.Item{Path: path, Unannounced: []string{"added", "modified", "removed"}[k%3]})
	}
	return items
}

func TestGolden(t *testing.T) {
	schema, xmllint := sarifSchema(t), junitSchema(t)
	for name, items := range map[string][]report.Item{"hard": hardItems(), "executed": executedItems(), "change": changeItems()} {
		for _, format := range report.Formats() {
			path := filepath.Join("testdata", name+"."+format)
			t.Run(name+"."+format, func(t *testing.T) {
				got := render(t, format, items)
				check(t, format, got, items, schema, xmllint)
				if again := render(t, format, items); !bytes.Equal(got, again) {
					t.Error("a second rendering differs")
				}
				if *update {
					if err := os.WriteFile(path, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s differs; -update writes it anew. Got\n%s", path, got)
				}
			})
		}
	}
}

// FuzzReports: every format stays valid, whatever an intent, a policy, a command or a
// file name contains.
func FuzzReports(f *testing.F) {
	for _, text := range hostile {
		f.Add("a.json", "/actions/0", text, `{"goal":"x","actions":[1]}`)
		f.Add(text, text, text, text)
	}
	f.Add("", "", "", "")
	schema := sarifSchema(f)
	f.Fuzz(func(t *testing.T, path, pointer, text, src string) {
		if most := policy.DefaultLimits().MessageBytes; max(len(path), len(pointer), len(text)) > most {
			t.Skipf("a policy gives no text of more than %d bytes", most)
		}
		fault := result.RunError{Code: result.CodeNotJSON, Message: text, Hint: pointer, Details: map[string]any{"offset": int64(len(text))}}
		question := denial("ASKED", pointer, text, "")
		question.Options = []string{text, pointer, path}
		line := refused("l"+path, src, denial("DENIED", pointer, text, pointer))
		line.Line = 3
		items := []report.Item{
			refused("x"+path, src, denial("DENIED", pointer, text, pointer), denial("DENIED", pointer, text, pointer)),
			asked("y"+path, src, question), accepted("z"+path, src, denial("NOTED", pointer, text, "")),
			broken("e"+path, src, fault), line,
			executed("f"+path, src, rejected(1, text+src, "EXIT 1", "OUTPUT_KIND "+text, "OUTPUT_NAME "+path, "STREAM_LIMIT "+pointer), denial("NOTED", pointer, text, "")),
			executed("g"+path, src, report.Execution{Accepted: true, Stderr: []byte(text)}),
			{Path: "h" + path, Unannounced: "added"},
		}
		for _, format := range report.Formats() {
			check(t, format, render(t, format, items), items, schema, nil)
		}
	})
}
