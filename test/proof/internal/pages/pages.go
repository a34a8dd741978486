// Package pages replaces the sections of a document that commands write. A section is the text
// between <!-- NAME --> and <!-- /NAME -->.
package pages

import (
	"fmt"
	"strings"
)

// Replace returns page with text as its section called name.
func Replace(page, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, also := strings.Cut(rest, end)
	if !ok || !also {
		return "", fmt.Errorf("there is no section %q", name)
	}
	return before + begin + strings.TrimRight(text, "\n") + "\n" + end + after, nil
}
