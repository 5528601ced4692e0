package programtest

import (
	"os"
	"strings"
	"testing"
)

// Block is a fenced block of a document.
type Block struct {
	// Language is the word behind the opening fence.
	Language string
	// Line is the line of the document on which the text begins, from 1.
	Line int
	// Text is the text between the fences.
	Text string
}

// Blocks returns the fenced blocks of a document, in their order.
func Blocks(t testing.TB, path string) []Block {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []Block
	inside := false
	for i, line := range strings.SplitAfter(string(content), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			found = append(found, Block{Language: strings.TrimSpace(language), Line: i + 2})
			inside = true
		case fence:
			inside = false
		case inside:
			found[len(found)-1].Text += line
		}
	}
	return found
}
