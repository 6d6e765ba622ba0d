// Reads a log as an auditor who has Go's checksum-database packages and nothing of ours: golang.org/x/mod, `note` and `tlog`.
//
//	readLog FOLDER VKEY...
//
// FOLDER holds what the log serves under /v1/log, and its checkpoint of an earlier time as `checkpoint.old`. Both checkpoints must
// have the signatures of all keys, the newer tree must continue the older one, and each entry must be where its tile says.
//
//	readLog - VKEY...
//
// says of each line of its standard input, a signed note in Base64, how many of the keys signed it, or "refused".
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A tile of C2SP has 256 hashes, and its path does not say so.
const height = 8

type folder string

func (f folder) Height() int                    { return height }
func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}

func (f folder) read(path string) []byte {
	data, err := os.ReadFile(filepath.Join(string(f), path))
	refuse(err)
	return data
}

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		all = append(all, f.read(strings.Replace(tile.Path(), "tile/8/", "tile/", 1)))
	}
	return all, nil
}

func refuse(err error) {
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
}

func check(ok bool, reason string) {
	if !ok {
		refuse(fmt.Errorf("%s", reason))
	}
}

func judge(keys []note.Verifier) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		data, err := base64.StdEncoding.DecodeString(lines.Text())
		refuse(err)
		if opened, err := note.Open(data, note.VerifierList(keys...)); err == nil {
			fmt.Println(len(opened.Sigs))
		} else {
			fmt.Println("refused")
		}
	}
	refuse(lines.Err())
}

// A checkpoint's tree. `tlog.ParseTree` reads the notes of Go's own log only: its first line is theirs.
func open(data []byte, keys []note.Verifier) tlog.Tree {
	opened, err := note.Open(data, note.VerifierList(keys...))
	refuse(err)
	check(len(opened.Sigs) == len(keys), fmt.Sprintf("signed by %d of %d keys", len(opened.Sigs), len(keys)))
	lines := strings.Split(opened.Text, "\n")
	check(len(lines) >= 3 && lines[0] == keys[0].Name(), "the checkpoint of another log")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	refuse(err)
	root, err := tlog.ParseHash(lines[2])
	refuse(err)
	return tlog.Tree{N: size, Hash: root}
}

func main() {
	log := folder(os.Args[1])
	var keys []note.Verifier
	for _, vkey := range os.Args[2:] {
		key, err := note.NewVerifier(vkey)
		refuse(err)
		keys = append(keys, key)
	}
	if log == "-" {
		judge(keys)
		return
	}
	old, tree := open(log.read("checkpoint.old"), keys), open(log.read("checkpoint"), keys)

	reader := tlog.TileHashReader(tree, log)
	grown, err := tlog.ProveTree(tree.N, old.N, reader)
	refuse(err)
	refuse(tlog.CheckTree(grown, tree.N, tree.Hash, old.N, old.Hash))

	var bundle []byte
	for n := int64(0); n < tree.N; n++ {
		if n%(1<<height) == 0 {
			check(len(bundle) == 0, "an entry too many")
			path := tlog.Tile{H: height, N: n >> height, W: int(min(tree.N-n, 1<<height))}.Path()
			bundle = log.read(strings.Replace(path, "tile/8/0/", "tile/entries/", 1))
		}
		length := int(binary.BigEndian.Uint16(bundle))
		entry := bundle[2 : 2+length]
		bundle = bundle[2+length:]
		proof, err := tlog.ProveRecord(tree.N, n, reader)
		refuse(err)
		refuse(tlog.CheckRecord(proof, tree.N, tree.Hash, n, tlog.RecordHash(entry)))
	}
	fmt.Printf("%d entries, signed by %d keys, continues a tree of %d\n", tree.N, len(keys), old.N)
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}
