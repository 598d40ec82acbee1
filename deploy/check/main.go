// Reads a Compose file as docker compose does, and refuses keys that it does not know.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(file string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}), cli.WithInterpolation(true))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	// What a container is started with, a line each: for whoever checks the flags.
	for _, name := range project.ServiceNames() {
		service := project.Services[name]
		for _, word := range service.Command {
			fmt.Printf("%s\t%s\n", name, word)
		}
	}
	return nil
}
