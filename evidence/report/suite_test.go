package report_test

import (
	"bytes"
	"encoding/xml"
	"testing"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
)

// TestJUnitOfTests: the report of a policy's tests fits the same JUnit schema as the
// report of intents, and has the same statements as the tests.
func TestJUnitOfTests(t *testing.T) {
	xmllint := junitSchema(t)
	hard := "line 3 does not hold: \"<a>\" & ]]>\x00\n\u202e"
	var b bytes.Buffer
	tests := []report.Test{{Class: "gate.user.x", Name: "test_a"}, {Class: "gate.user.x<", Name: `test_"b"`, Fault: hard}}
	if err := report.JUnit(&b, "a & b", tests); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Cases    []struct {
				Class   string `xml:"classname,attr"`
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Suites[0]
	if len(got.Suites) != 1 || s.Name != "a & b" || s.Tests != 2 || s.Failures != 1 || len(s.Cases) != 2 {
		t.Fatalf("suite %+v", s)
	}
	if c := s.Cases[0]; c.Class != "gate.user.x" || c.Name != "test_a" || c.Failure != nil {
		t.Errorf("case %+v", c)
	}
	if c := s.Cases[1]; c.Name != `test_"b"` || c.Failure == nil || c.Failure.Message != screen.Plain(hard) {
		t.Errorf("case %+v", c)
	}
	if xmllint != nil {
		xmllint(t, b.Bytes())
	}
}
