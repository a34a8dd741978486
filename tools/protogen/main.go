// Protogen compiles proto/ and writes the Go code of cmd/pawld's API. It runs the compiler and the
// plugins in the versions that tools/go.mod names, so nothing else has to be installed. See "make
// proto".
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "pawl/v1/locks.proto"
	module = "github.com/pawl-locks/pawl/"
)

// plugins are run by go tool, in tools/go.mod's versions.
var plugins = []string{"google.golang.org/protobuf/cmd/protoc-gen-go", "connectrpc.com/connect/cmd/protoc-gen-connect-go"}

func main() {
	log.SetFlags(0)
	check := flag.Bool("check", false, "compare with what is there, and write nothing")
	root := flag.String("root", "..", "folder of the repository")
	flag.Parse()
	if err := generate(*root, *check); err != nil {
		log.Fatal(err)
	}
}

func generate(root string, check bool) error {
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "proto")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), source)
	if err != nil {
		return err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("module=" + strings.TrimSuffix(module, "/")),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{descriptor(files[0])},
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, plugin := range plugins {
		errs = append(errs, run(plugin, request, root, check))
	}
	return errors.Join(errs...)
}

func descriptor(f linker.File) *descriptorpb.FileDescriptorProto {
	if r, ok := f.(linker.Result); ok {
		return r.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(f)
}

// run runs a plugin and writes, or compares, its output.
func run(plugin string, request []byte, root string, check bool) error {
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s: %s", plugin, *response.Error)
	}
	for _, f := range response.File {
		path := filepath.Join(root, f.GetName())
		if check {
			if old, err := os.ReadFile(path); err != nil || string(old) != f.GetContent() {
				return fmt.Errorf("%s is not what %s makes of proto/%s: run make proto", f.GetName(), plugin, source)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
