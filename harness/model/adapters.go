package model

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// MaxAdaptersBytes is the maximum size of a file of adapters.
const MaxAdaptersBytes = 1 << 20

// Adapter is one model that can be called.
type Adapter struct {
	ID      string `json:"id"`       // its name in intents
	BaseURL string `json:"base_url"` // address of the endpoint, without /chat/completions
	Model   string `json:"model"`    // its name at the endpoint
	KeyEnv  string `json:"key_env"`  // name of the environment variable that holds the key, or empty
}

var adapterFiles canon.Decoder[struct {
	Adapters []Adapter `json:"adapters"`
}]

// AdaptersError says what is wrong with a file of adapters, which is JSON.
type AdaptersError struct {
	Pointer string
	Msg     string
	Hint    string // advice, or empty
}

// Error returns the message.
func (e *AdaptersError) Error() string {
	if e.Pointer == "" {
		return e.Msg
	}
	return e.Pointer + ": " + e.Msg
}

// ParseAdapters reads a file of adapters. The error is a *canon.Error, an
// *AdaptersError, or says that the file could not be checked by its schema.
func ParseAdapters(src []byte, set *specs.Set) ([]Adapter, error) {
	doc, err := canon.Parse(src, MaxAdaptersBytes)
	if err != nil {
		return nil, err
	}
	violations, err := set.Validate(specs.KindModelAdapters, doc.Value())
	if err != nil {
		return nil, err
	}
	if len(violations) > 0 {
		return nil, &AdaptersError{violations[0].Pointer, violations[0].Msg, "fiador schema model-adapters prints what the file may hold"}
	}
	file, err := adapterFiles.Decode(doc.Value())
	if err != nil {
		return nil, err
	}
	first := map[string]int{}
	for i, a := range file.Adapters {
		at := "/adapters/" + strconv.Itoa(i)
		if other, twice := first[a.ID]; twice {
			return nil, &AdaptersError{at + "/id", strconv.Quote(a.ID) + " is also the id of adapter " + strconv.Itoa(other+1), "give each adapter an id of its own"}
		}
		first[a.ID] = i
		if strings.HasPrefix(a.KeyEnv, "FIADOR_") {
			return nil, &AdaptersError{at + "/key_env", a.KeyEnv + " is a variable of this program", "keep the key of the model in a variable of its own"}
		}
		if msg, hint := BaseFault(a.BaseURL); msg != "" {
			return nil, &AdaptersError{at + "/base_url", msg, hint}
		}
	}
	return file.Adapters, nil
}

// BaseFault says why a base URL cannot be used, and gives advice. It returns "" for a URL
// that can.
func BaseFault(base string) (msg, hint string) {
	const form = "name scheme, host and path alone, as in https://host/v1"
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return "not a URL with a host", form
	case u.Scheme != "http" && u.Scheme != "https":
		return "neither https nor http", form
	case u.User != nil:
		return "a URL with a user", "put the key into an environment variable and name it as key_env"
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(base, "#"):
		return "a URL with a query or a fragment", form
	case strings.Contains(u.Path+"/", "/../") || strings.Contains(u.Path+"/", "/./"):
		return "a path with dots", form
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "not a port from 1 to 65535", form
		}
	}
	if u.Scheme == "http" && !outbound.OfThisMachine(u.Hostname()) {
		return "http to another machine: the key and the prompts could be read on the way", "use https; http is for an endpoint on the machine itself (localhost, 127.0.0.1, [::1])"
	}
	return "", ""
}
