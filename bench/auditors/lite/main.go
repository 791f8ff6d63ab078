// Command lite runs litewitness, the witness of torchwood, for one log:
//
//	lite --log VKEY --dir DIR --listen HOST:PORT --litewitness PROGRAM
//
// It makes a key for the witness, and is the ssh-agent that has it. When the witness answers,
// lite prints its verifier key. It ends when standard input ends.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh/agent"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const name = "witness.example/lite"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lite:", err)
		os.Exit(1)
	}
}

func run() error {
	log := flag.String("log", "", "verifier key of the log")
	dir := flag.String("dir", "", "empty folder with a short path")
	listen := flag.String("listen", "", "address of the witness")
	program := flag.String("litewitness", "", "the program")
	flag.Parse()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := torchwood.NewCosignatureSigner(name, private)
	if err != nil {
		return err
	}
	socket := filepath.Join(*dir, "agent")
	if err := serveKey(private, socket); err != nil {
		return err
	}
	sum := sha256.Sum256(public)
	db := filepath.Join(*dir, "db")
	cmd := exec.Command(*program, "-name", name, "-db", db, "-ssh-agent", socket, "-key", hex.EncodeToString(sum[:]), "-listen", *listen)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill() // it has no state that is needed
		_ = cmd.Wait()
	}()
	if err := answers(*listen); err != nil {
		return err
	}
	if err := addLog(db, *log); err != nil {
		return err
	}
	fmt.Println(signer.Verifier())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serveKey is an ssh-agent with one key.
func serveKey(key ed25519.PrivateKey, socket string) error {
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, conn) }()
		}
	}()
	return nil
}

// answers waits until something listens.
func answers(address string) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			return conn.Close()
		}
	}
	return errors.New("the witness does not listen")
}

// addLog makes a log known to the witness, as witnessctl does.
func addLog(file, key string) error {
	db, err := sqlite.OpenConn(file)
	if err != nil {
		return err
	}
	origin, _, _ := strings.Cut(key, "+")
	empty := sha256.Sum256(nil)
	err = sqlitex.Execute(db, "INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", &sqlitex.ExecOptions{Args: []any{origin, base64.StdEncoding.EncodeToString(empty[:])}})
	if err == nil {
		err = sqlitex.Execute(db, "INSERT INTO key (origin, key) VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{origin, key}})
	}
	return errors.Join(err, db.Close())
}
