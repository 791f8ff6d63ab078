package page

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"

	"github.com/fiador/fiador/kernel/grade"
)

// head is what stands above the cases.
type head struct {
	*Report
	Style    template.CSS
	StyleSum string // the page allows no other style
	Reasons  []reason
	Chips    map[string]int // cases that a chip shows
}

// reason is why the gate did not pass.
type reason struct {
	grade.Reason
	Links []link
	More  int // cases that are not named
}

// link leads to a case.
type link struct{ CaseID, Said string }

func newHead(r *Report) head {
	sum := sha256.Sum256([]byte(style))
	h := head{Report: r, Style: template.CSS(style), StyleSum: base64.StdEncoding.EncodeToString(sum[:]), Chips: map[string]int{}}
	byID := map[string]grade.CaseResult{}
	for _, c := range r.Cases {
		byID[c.CaseID] = c
		for _, chip := range groups(c) {
			h.Chips[chip]++
		}
	}
	for _, g := range r.Gate.Reasons {
		v := reason{Reason: g}
		for _, id := range g.Cases {
			c, ok := byID[id]
			if !ok {
				continue
			}
			l := link{CaseID: id}
			if c.Divergence != nil && len(v.Links) < 3 {
				l.Said, c.Divergence = c.Divergence.Headline, nil
				byID[id] = c // a second reason does not say it again
			}
			v.Links = append(v.Links, l)
		}
		if n := int(g.Count); len(v.Links) > 0 && float64(n) == g.Count {
			v.More = max(0, n-len(v.Links))
		}
		h.Reasons = append(h.Reasons, v)
	}
	return h
}
