package transcriptcmd

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/kernel/canon"
)

func eventsCommand(a *cli.App) *cobra.Command {
	stream := ""
	streams := []string{"stdout", "stderr", "meta"}
	cmd := &cobra.Command{
		Use:   "events LOG",
		Short: "print the events of a log as JSON lines",
		Long: `Events prints one canonical JSON object (RFC 8785) a line for every event of a log, in
their order. The members are:

  seq     the number of the event, from 1 on
  stream  STDOUT, STDERR or META
  text    the text of the event. What the log has in base64 is decoded
  base64  in the place of text: the bytes of a line that JSON cannot hold as text. The
          line is not valid UTF-8, or has a noncharacter such as U+FFFE
  event   of META: start, note or exit
  cmd     of start: the command, quoted for a shell; absent if JSON cannot hold it as text
  code    of exit: the exit code

The LF at the end of a line is not part of it. The CR of a CRLF is part of it only if
the log has the line in base64. On a terminal characters that do not show are escaped.

Exit codes:
  0  printed
  2  not a log, not whole, or it could not be read`,
		Example: `  fiador transcript events run.log | jq -r 'select(.stream == "STDERR").text'
  fiador transcript events run.log --stream meta | jq .code`,
		Args: cli.ExactArgs("LOG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("stream") {
				if err := cli.Choice("stream", stream, streams); err != nil {
					return err
				}
			}
			return transcriptEvents(cmd.Context(), a, args[0], stream)
		},
	}
	cmd.Flags().StringVar(&stream, "stream", "", "only the events of one stream: "+strings.Join(streams, ", "))
	cli.Complete(cmd, "stream", streams...)
	return cmd
}

// transcriptEvents prints the events of a log, or those of one stream. The whole log is
// checked first: a log that is not whole prints nothing and is exit status 2.
func transcriptEvents(ctx context.Context, a *cli.App, name, stream string) error {
	l, err := openLog(ctx, a, name)
	if err != nil {
		return err
	}
	defer l.close()
	log, err := l.whole()
	if err != nil {
		return err
	}
	l.quiet()
	out := pageWriter(a)
	for e, err := range log.Events() {
		if err != nil {
			return l.unread(err)
		}
		if stream != "" && !strings.EqualFold(stream, e.Stream.String()) {
			continue
		}
		line, err := eventLine(log, e)
		if err != nil {
			return err
		}
		if line = append(line, '\n'); a.OutTTY {
			line = screen.JSON(line)
		}
		if _, err := out.Write(line); err != nil {
			return cli.Unprinted(err)
		}
	}
	return cli.Flush(out)
}

// eventDocument is an event. Bytes that JSON cannot hold as text are in base64.
type eventDocument struct {
	Seq    int64   `json:"seq"`
	Stream string  `json:"stream"`
	Text   *string `json:"text,omitempty"`
	Base64 string  `json:"base64,omitzero"`
	Event  string  `json:"event,omitempty"`
	Cmd    *string `json:"cmd,omitempty"`
	Code   *int    `json:"code,omitempty"`
}

// eventPlan encodes events. It is made once, because a log can have millions of them.
var eventPlan canon.Plan[eventDocument]

// eventLine returns an event as canonical JSON.
func eventLine(log *transcript.Log, e transcript.Event) ([]byte, error) {
	b, err := e.Bytes()
	if err != nil {
		return nil, err
	}
	doc := eventDocument{Seq: e.Seq, Stream: e.Stream.String(), Text: new(string(b))}
	if e.Stream == transcript.Meta {
		switch {
		case e.Seq == 1:
			doc.Event, doc.Cmd = "start", new(log.Command())
		case strings.HasPrefix(e.Text, "safe-run exit:"):
			doc.Event, doc.Code = "exit", new(log.Code())
		default:
			doc.Event = "note"
		}
	}
	line, err := eventPlan.Canonical(&doc)
	if err != nil {
		doc.Text, doc.Cmd, doc.Base64 = nil, nil, base64.StdEncoding.EncodeToString(b)
		line, err = eventPlan.Canonical(&doc)
	}
	return line, err
}
