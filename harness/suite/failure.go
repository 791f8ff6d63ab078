package suite

import (
	"net/http"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// Observed is what one attempt has shown.
type Observed struct {
	Cancelled bool   `json:"cancelled,omitempty"` // by the runner
	Deadline  string `json:"deadline,omitempty"`  // what the attempt did when its time was over: dial, head, body or run
	Fault     string `json:"fault,omitempty"`     // why the answer is not whole: one of the faults below, or the word of an exec agent
	Status    int    `json:"status,omitempty"`    // of a head that came; 0: none came
	TooLarge  bool   `json:"too_large,omitempty"` // the decoded body is larger than the limit
	JSON      string `json:"json,omitempty"`      // why the body is no JSON: empty_body or a kind of canon.Error
	Answer    string `json:"answer,omitempty"`    // why the JSON is no answer: the first reason
	Panicked  bool   `json:"panicked,omitempty"`  // the runner itself has failed

	Sent       bool              `json:"-"` // the request may have reached the agent
	Body       []byte            `json:"-"` // as far as it came, decoded
	Whole      bool              `json:"-"` // all of the body came
	Total      *int64            `json:"-"` // the bytes of the body, if the head tells it; nil: not known
	Encoding   string            `json:"-"`
	Header     map[string]string `json:"-"` // the headers that a description keeps
	RetryAfter string            `json:"-"`
	Stderr     []byte            `json:"-"` // of an agent that is a command, the beginning
	StderrCut  bool              `json:"-"` // there was more of it
	StderrAt   string            `json:"-"` // the asset that keeps it
	Message    string            `json:"-"` // an offset or pointers, for people
	Redacted   []string          `json:"-"` // the rules that had redacted a recording
	Recorded   *trial.Failure    `json:"-"` // the failure of a recording; nil: not of one
}

// The faults of a connection and of an HTTP answer.
const (
	faultDNS      = "dns"
	faultTLS      = "tls"
	faultRefused  = "conn_refused"
	faultReset    = "conn_reset"
	faultClosed   = "closed_before_response"
	faultShort    = "short_body"
	faultDial     = "dial"
	faultProtocol = "protocol"
	faultCoding   = "content_decoding"
)

// early are the faults of class network_error that count before the size of a body does.
func early(fault string) bool {
	switch fault {
	case faultDNS, faultTLS, faultRefused, faultReset, faultClosed, faultShort:
		return true
	}
	return false
}

// Failed returns the class and the name of the failure that an attempt has shown: those of the
// first row of the table in specs/suite.md that holds. An empty class means that the attempt has
// an answer.
func Failed(o Observed) (class trial.Class, name string) {
	switch {
	case o.Recorded != nil:
		return o.Recorded.Class, o.Recorded.ErrorName
	case o.Cancelled:
		return trial.Other, "interrupted"
	case o.Deadline != "":
		return trial.Timeout, "deadline_" + o.Deadline
	case o.Status != 0 && (o.Status < 200 || o.Status > 299):
		return trial.HTTPError, ""
	case early(o.Fault):
		return trial.NetworkError, o.Fault
	case o.Fault == faultCoding:
		return trial.Other, o.Fault
	case o.TooLarge:
		return trial.Other, "body_too_large"
	case o.Fault == faultDial || o.Fault == faultProtocol:
		return trial.NetworkError, o.Fault
	case o.Fault != "":
		return trial.Other, o.Fault
	case o.JSON != "":
		return trial.InvalidJSON, o.JSON
	case o.Answer != "":
		return trial.SchemaMismatch, o.Answer
	case o.Panicked:
		return trial.Other, "internal"
	}
	return "", ""
}

// retried says whether a failed attempt is followed by another one. Without idempotent, only
// what the agent has not acted on is sent again.
func retried(o Observed, class trial.Class, idempotent bool) bool {
	refused := class == trial.NetworkError && !o.Sent ||
		class == trial.HTTPError && (o.Status == http.StatusTooManyRequests || o.Status == http.StatusServiceUnavailable)
	lost := class == trial.Timeout || class == trial.NetworkError || class == trial.HTTPError && o.Status >= 500
	return o.Recorded == nil && (refused || idempotent && lost)
}

// Why a recording has nothing for a case (package recording).
const (
	NotRecorded = "not_recorded"
	Unreadable  = "recording_unreadable"
)

// Phrase is the message of a failure.
func Phrase(class trial.Class, name string) string {
	switch name {
	case "interrupted":
		return "the run was interrupted"
	case "deadline_dial":
		return "the time was over before there was a connection"
	case "deadline_head":
		return "the time was over before an answer began"
	case "deadline_body":
		return "the time was over before the answer ended"
	case "deadline_run":
		return "the time was over before the command ended"
	case faultDNS:
		return "the name of the agent's host is not known"
	case faultTLS:
		return "the certificate or the handshake of the agent is not accepted"
	case faultRefused:
		return "nobody listens at the agent's address"
	case faultReset:
		return "the connection was reset"
	case faultClosed:
		return "the connection was closed before an answer began"
	case faultShort:
		return "the answer is shorter than its head says"
	case faultDial:
		return "no connection could be made"
	case faultProtocol:
		return "the answer is not HTTP as this client reads it"
	case faultCoding:
		return "the encoding of the answer cannot be undone"
	case "body_too_large":
		return "the answer is larger than max_body_bytes"
	case "spawn_failed":
		return "the command could not be started"
	case "exit_signal":
		return "a signal ended the command"
	case "exit_status":
		return "the command ended with an exit code other than 0"
	case "empty_body":
		return "the answer is empty"
	case NotRecorded:
		return "the recording has no such case"
	case Unreadable:
		return "the recording of this case cannot be read"
	case "internal":
		return "the runner has failed; the other cases are not concerned"
	case "oom":
		return "the command used more memory than the policy allows"
	case "output_limit":
		return "the command wrote more to files than the policy allows"
	case "call_output":
		return "the command repeated a secret, so its output was thrown away"
	case "call_refused":
		return "the program of the command is not the one that the policy decided about"
	}
	return phraseOf(class, name)
}

// phraseOf is the phrase for a name that stands for a class of failures, or is not known.
func phraseOf(class trial.Class, name string) string {
	switch class {
	case trial.InvalidJSON:
		text := "the answer is not JSON that every reader reads alike"
		if why := unread(canon.Kind(name)); why != "" {
			text += ": " + why
		}
		return text
	case trial.SchemaMismatch:
		text := "the answer is JSON, and no answer of an agent"
		if why := trial.FaultText(name); why != "" {
			text += ": " + why
		}
		return text
	case trial.HTTPError:
		return "the agent answered with a status that is no success"
	case trial.Timeout:
		return "the time was over"
	case trial.NetworkError:
		return "the agent could not be reached, or left"
	}
	return "the answer is not whole"
}

// unread says why a text is no JSON.
func unread(kind canon.Kind) string {
	switch kind {
	case canon.KindEncoding:
		return "it is not UTF-8 without a byte order mark"
	case canon.KindSyntax:
		return "the grammar is broken"
	case canon.KindDuplicate:
		return "a name stands twice in an object"
	case canon.KindDepth:
		return "it is nested too deep"
	case canon.KindNumber:
		return "a number is out of range"
	case canon.KindCharacter:
		return "a string has half a surrogate pair, or no character"
	case canon.KindTrailing:
		return "something follows the value"
	case canon.KindValues:
		return "it has too many values"
	case canon.KindSize:
		return "it has too many bytes"
	}
	return ""
}
