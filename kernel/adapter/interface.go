package adapter

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

func element(list string, i int) string { return list + "/" + strconv.Itoa(i) }

// template is one word of a template, as pieces of text with the value between them.
type template [][]string

// readTemplate reads the template of a parameter. It is split at spaces into words before
// values go in, so no value is ever split. {value} and the parameter's own name in braces
// stand for the value; any other brace is a fault.
func readTemplate(at, name, text string) (template, error) {
	const hint = `write words with one space between them, with {value} for the value, as in "-m {value}"`
	var words template
	for word := range strings.SplitSeq(text, " ") {
		if word == "" {
			return nil, fault(at, "the template "+canon.Quote(text)+" has an empty word", hint)
		}
		if v := contract.CheckArgument(at, word, contract.Argv); v != nil {
			return nil, violated(v)
		}
		pieces := strings.Split(strings.ReplaceAll(word, "{"+name+"}", "{value}"), "{value}")
		for _, piece := range pieces {
			if strings.ContainsAny(piece, "{}") {
				return nil, fault(at, "the template "+canon.Quote(text)+" has a placeholder that is not {value} or {"+canon.Cut(name)+"}", hint)
			}
		}
		words = append(words, pieces)
	}
	return words, nil
}

// isFlag says whether a template has no placeholder.
func (t template) isFlag() bool {
	return !slices.ContainsFunc(t, func(word []string) bool { return len(word) > 1 })
}

func (c *CLIInterface) fault(at string) error {
	if err := commandFault(at+"/executable", c.Executable); err != nil {
		return err
	}
	if v := contract.CheckArguments(at+"/base_args", c.BaseArgs, contract.Argv); len(v) > 0 {
		return violated(&v[0])
	}
	if (c.ArgMapping == nil) != (c.ArgOrder == nil) || !slices.Equal(slices.Sorted(slices.Values(c.ArgOrder)), slices.Sorted(slices.Values(canon.Names(c.ArgMapping)))) {
		return fault(at+"/arg_order", "arg_order does not have each name of arg_mapping once", "the loader adds it in the order of the text")
	}
	for _, name := range c.ArgOrder {
		if _, err := readTemplate(canon.Pointer(at+"/arg_mapping", name), name, c.ArgMapping[name]); err != nil {
			return err
		}
	}
	set := map[string]bool{} // the variables that something sets
	variable := func(at, name string) error {
		if v := contract.CheckEnvironment("", map[string]string{name: ""}, contract.AllowList{All: true}); len(v) > 0 {
			return fault(at, v[0].ID+": "+v[0].Msg, v[0].Hint)
		}
		if set[name] {
			return fault(at, "the variable "+canon.Quote(name)+" is set twice", "set it once")
		}
		set[name] = true
		return nil
	}
	for _, name := range canon.Names(c.EnvMapping) {
		if err := variable(canon.Pointer(at+"/env_mapping", name), c.EnvMapping[name]); err != nil {
			return err
		}
	}
	for _, name := range canon.Names(c.Secrets) {
		place := canon.Pointer(at+"/secrets", name)
		if err := variable(place, name); err != nil {
			return err
		}
		if err := secretFault(place+"/env", c.Secrets[name].Env); err != nil {
			return err
		}
	}
	return nil
}

// secretFault refuses a variable of this program, which is no secret of a tool.
func secretFault(at, variable string) error {
	if strings.HasPrefix(variable, "FIADOR_") {
		return fault(at, variable+" is a variable of this program", "keep the secret in a variable of its own")
	}
	return nil
}

// ownHeaders are set by the one who asks, or would hold a secret in a document.
var ownHeaders = []string{"authorization", "connection", "content-length", "cookie", "host", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}

func (in *APIInterface) fault(at string) error {
	seen := map[string]bool{}
	for _, name := range canon.Names(in.Headers) {
		place := canon.Pointer(at+"/headers", name)
		if seen[strings.ToLower(name)] {
			return fault(place, "the header "+canon.Quote(name)+" stands twice: upper and lower case make no difference", "name each header once")
		}
		seen[strings.ToLower(name)] = true
		if slices.Contains(ownHeaders, strings.ToLower(name)) {
			return fault(place, "the header "+canon.Quote(name)+" is not for an adapter to set", "leave it out; auth carries a secret")
		}
	}
	for _, operation := range canon.Names(in.EndpointMapping) {
		if _, err := readEndpoint(canon.Pointer(at+"/endpoint_mapping", operation), in.EndpointMapping[operation]); err != nil {
			return err
		}
	}
	if in.Auth == nil {
		return nil
	}
	if in.AuthMethod == "" || in.AuthMethod == "none" {
		return fault(at+"/auth", "auth_method is none, so there is no auth", "name the method, or leave auth out")
	}
	return in.Auth.fault(at+"/auth", in.AuthMethod)
}

func (a *Auth) fault(at, method string) error {
	switch {
	case (a.SecretEnv == "") == (a.SecretFile == ""):
		return fault(at, "not exactly one of secret_env and secret_file", "name the place of the secret once")
	case method == "oauth" && (a.TokenURL == "" || a.ClientID == ""):
		return fault(at, "oauth needs token_url and client_id", "add both")
	case method != "oauth" && a.TokenURL+a.ClientID+a.Scope != "":
		return fault(at, "token_url, client_id and scope belong to auth_method oauth", "leave them out")
	case slices.Contains(ownHeaders, strings.ToLower(a.Header)) && !strings.EqualFold(a.Header, "authorization"):
		return fault(at+"/header", "the header "+canon.Quote(a.Header)+" carries no secret", "name another one")
	}
	return secretFault(at+"/secret_env", a.SecretEnv)
}

// endpoint is a method and the segments of a path. A segment is literal or stands for a
// parameter.
type endpoint struct {
	method   string
	segments []segment
}

type segment struct{ literal, param string }

// hasBody says whether the parameters that the path does not take go into a body.
func (e endpoint) hasBody() bool { return slices.Contains([]string{"POST", "PUT", "PATCH"}, e.method) }

func readEndpoint(at, text string) (endpoint, error) {
	const hint = `write the method, a space and a path, as in "GET /resources/{id}"`
	method, path, _ := strings.Cut(text, " ")
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, method) {
		return endpoint{}, fault(at, "the endpoint "+canon.Quote(text)+" has no method GET, HEAD, POST, PUT, PATCH or DELETE", hint)
	}
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted {
		return endpoint{}, fault(at, "the path "+canon.Quote(path)+" does not begin with a slash", hint)
	}
	e := endpoint{method: method}
	if rest == "" {
		return e, nil
	}
	for s := range strings.SplitSeq(rest, "/") {
		name, opened := strings.CutPrefix(s, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case opened && closed && isName(name) && name != operationParam:
			e.segments = append(e.segments, segment{param: name})
		case s == "" || s == "." || s == ".." || escape(s) != s:
			return endpoint{}, fault(at, "the path "+canon.Quote(path)+" has the segment "+canon.Quote(s), "use letters, digits and -._~ in a segment, or one {parameter} alone")
		default:
			e.segments = append(e.segments, segment{literal: s})
		}
	}
	return e, nil
}

// escape returns a text with every character percent-encoded that RFC 3986 does not call
// unreserved.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func (in *SDKInterface) fault(at string) error {
	switch in.Language {
	case "python", "node":
		if in.ImportPath == "" {
			return fault(at, "a library of "+in.Language+" has no import_path", "name the module")
		}
	case "go", "rust":
		if in.Package == "" {
			return fault(at, "a library of "+in.Language+" is reached by an executable, and package names none", "name the executable as package")
		}
		return commandFault(at+"/package", in.Package)
	}
	return nil
}

func (in *MCPInterface) fault(at string) error {
	if in.Transport == "websocket" {
		return fault(at+"/transport", "websocket is no transport of MCP", "use stdio or http")
	}
	return nil
}

// networkFault refuses a list of hosts without a network, and a service without one.
func (a *Adapter) networkFault() error {
	const at = "/sandbox_override/network"
	network := a.Override.Network
	remote := a.Type == API || a.Type == MCP && a.Interface.MCP.Transport == "http"
	_, i, wrong := contract.ParseHosts(network.Allow)
	switch {
	case wrong != "":
		return fault(element(at+"/allow", i), canon.Quote(network.Allow[i])+": "+wrong, "write host, host:port, *.host or private:host:port")
	case !network.Enabled && len(network.Allow) > 0:
		return fault(at+"/allow", "a list of hosts, and enabled is not true", "set enabled to true, or leave the list out")
	case remote && len(network.Allow) == 0:
		return fault(at+"/allow", "the adapter reaches a host, and the list of its hosts is empty", "name the hosts in sandbox_override.network.allow, with enabled true")
	}
	return nil
}
