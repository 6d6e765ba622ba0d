// Says what libraries of other people make of policies, cosignatures and proofs: filippo.io/torchwood, sigsum.org/sigsum-go and
// github.com/transparency-dev/formats. Reads lines of space-separated items in Base64, and answers each with a line.
//
//	judgeFormats policies ORIGIN LOG-VKEY WITNESS-VKEY...
//
// A line: a policy, and the same one with keys as Sigsum writes them. Answers with the verdict of torchwood and that of Sigsum: "refused",
// or for each set of these witnesses, the first of them the lowest bit, whether their cosignatures satisfy the policy.
//
//	judgeFormats cosignatures WITNESS-VKEY...
//
// A line: a signed note. Answers "malformed", or for each signature line, in turn, which of the witnesses made it and when, if both
// torchwood and formats say so: "1@1800000000", or "-".
//
//	judgeFormats proofs POLICY RECORD
//
// A line: a tlog-proof. Answers whether it proves the record by that policy: "yes", "no", or "lines" if it does once the lines are removed
// that carry the name and the id of a known key and are wrong. POLICY and RECORD are in Base64.
package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/torchwood"
	formats "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"sigsum.org/sigsum-go/pkg/crypto"
	"sigsum.org/sigsum-go/pkg/policy"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func decode(text string) []byte { return must(base64.StdEncoding.DecodeString(text)) }

// The 32 bytes at the end of a verifier key.
func keyOf(vkey string) crypto.PublicKey {
	bytes := decode(strings.SplitN(vkey, "+", 3)[2])
	return crypto.PublicKey(bytes[1:])
}

func bit(ok bool) string {
	if ok {
		return "1"
	}
	return "0"
}

func judgeTorchwood(text []byte, origin string, log note.Verifier, witnesses []note.Verifier) (verdict string) {
	// A line of nothing but white space other than spaces and tabs ends torchwood 0.9.0.
	defer func() {
		if recover() != nil {
			verdict = "refused"
		}
	}()
	read, err := torchwood.ParsePolicy(text)
	if err != nil {
		return "refused"
	}
	for set := 0; set < 1<<len(witnesses); set++ {
		signatures := []note.Signature{{Name: log.Name(), Hash: log.KeyHash()}}
		for n, witness := range witnesses {
			if set>>n&1 == 1 {
				signatures = append(signatures, note.Signature{Name: witness.Name(), Hash: witness.KeyHash()})
			}
		}
		verdict += bit(read.Check(origin, signatures) == nil)
	}
	return verdict
}

type cosigned map[crypto.Hash]bool

func (c cosigned) ProcessWitness(key crypto.Hash) any { return c[key] }

func (c cosigned) ProcessGroup(needed int, members []any) any {
	there := 0
	for _, member := range members {
		if member.(bool) {
			there++
		}
	}
	return there >= needed
}

func judgeSigsum(text []byte, keys []crypto.PublicKey) string {
	read, err := policy.ParseConfig(strings.NewReader(string(text)))
	if err != nil {
		return "refused"
	}
	verdict := ""
	for set := 0; set < 1<<len(keys); set++ {
		those := cosigned{}
		for n, key := range keys {
			those[crypto.HashBytes(key[:])] = set>>n&1 == 1
		}
		verdict += bit(read.ProcessQuorum(those).(bool))
	}
	return verdict
}

func policies(args []string) func([][]byte) string {
	log := must(note.NewVerifier(args[1]))
	var witnesses []note.Verifier
	var keys []crypto.PublicKey
	for _, vkey := range args[2:] {
		witnesses = append(witnesses, must(torchwood.NewCosignatureVerifier(vkey)))
		keys = append(keys, keyOf(vkey))
	}
	return func(items [][]byte) string {
		return judgeTorchwood(items[0], args[0], log, witnesses) + " " + judgeSigsum(items[1], keys)
	}
}

// The signature lines of a note that are well-formed, and the text before them; none if no reader accepts it.
func linesOf(data []byte) (text string, lines []string) {
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(data, note.VerifierList()); !errors.As(err, &unverified) {
		return "", nil
	}
	border := strings.LastIndex(string(data), "\n\n") + 2
	return string(data[:border]), strings.SplitAfter(strings.TrimSuffix(string(data[border:]), "\n"), "\n")
}

func verifies(text, line string, verifiers note.Verifiers) (*note.Note, error) {
	return note.Open([]byte(text+strings.TrimSuffix(line, "\n")+"\n"), verifiers)
}

func cosignatures(vkeys []string) func([][]byte) string {
	return func(items [][]byte) string {
		text, lines := linesOf(items[0])
		if lines == nil {
			return "malformed"
		}
		var verdicts []string
		for _, line := range lines {
			verdict := "-"
			for n, vkey := range vkeys {
				one := must(torchwood.NewCosignatureVerifier(vkey))
				opened, err := verifies(text, line, note.VerifierList(one))
				_, otherErr := verifies(text, line, note.VerifierList(must(formats.NewVerifierForCosignatureV1(vkey))))
				if err != nil || otherErr != nil {
					continue
				}
				if time, err := torchwood.CosignatureTimestamp(opened.Sigs[0]); err == nil {
					verdict = fmt.Sprintf("%d@%d", n, time)
				}
			}
			verdicts = append(verdicts, verdict)
		}
		return strings.Join(verdicts, " ")
	}
}

func proofs(args []string) func([][]byte) string {
	known := must(torchwood.ParsePolicy(decode(args[0])))
	record := tlog.RecordHash(decode(args[1]))
	return func(items [][]byte) string {
		if torchwood.VerifyProof(known, record, items[0]) == nil {
			return "yes"
		}
		head, checkpoint, _ := strings.Cut(string(items[0]), "\n\n")
		text, lines := linesOf([]byte(checkpoint))
		right := head + "\n\n" + text
		for _, line := range lines {
			var wrong *note.InvalidSignatureError
			if _, err := verifies(text, line, known); !errors.As(err, &wrong) {
				right += strings.TrimSuffix(line, "\n") + "\n"
			}
		}
		if torchwood.VerifyProof(known, record, []byte(right)) == nil {
			return "lines"
		}
		return "no"
	}
}

func main() {
	judges := map[string]func([]string) func([][]byte) string{
		"policies": policies, "cosignatures": cosignatures, "proofs": proofs,
	}
	judge := judges[os.Args[1]](os.Args[2:])
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var items [][]byte
		for _, item := range strings.Split(lines.Text(), " ") {
			items = append(items, decode(item))
		}
		fmt.Fprintln(out, judge(items))
	}
	must(0, lines.Err())
	must(0, out.Flush())
}
