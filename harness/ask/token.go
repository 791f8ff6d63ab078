package ask

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
)

// token gets an access token for the credentials of a client (RFC 6749, section 4.4). The
// secret goes in Authorization, which no other host gets after a redirect. The token is a
// secret from then on. A token that could not be searched for is none.
func (a *Asker) token(ctx context.Context, c outbound.Client, auth *adapter.Auth) (string, adapter.Reply) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if auth.Scope != "" {
		form.Set("scope", auth.Scope)
	}
	client := url.QueryEscape(auth.ClientID) + ":" + url.QueryEscape(a.vault.Of(auth))
	header := http.Header{
		"Accept": {"application/json"}, "Content-Type": {"application/x-www-form-urlencoded"}, "User-Agent": {"fiador"},
		"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(client))},
	}
	own := secret.New(nil) // an endpoint may give the same token again
	own.Learn(a.vault.Of(auth))
	got := send(ctx, c, own, http.MethodPost, auth.TokenURL, header, strings.NewReader(form.Encode()))
	if got.Failure != "" {
		return "", got
	}
	bad := adapter.Reply{Failure: adapter.FailOutput}
	doc, err := canon.Parse(got.Answer, pack.MaxResponseBytes)
	if err != nil {
		return "", bad
	}
	members, _ := doc.Value().(map[string]any)
	token, _ := members["access_token"].(string)
	kind, _ := members["token_type"].(string)
	if !strings.EqualFold(kind, "bearer") || strings.Contains(token, " ") || !a.vault.Learn(token) {
		return "", bad
	}
	return token, got
}
