package main

// terminalMutants are bugs of what a person meets at a terminal.
func terminalMutants() []mutant {
	const cli = "internal/cli"
	return []mutant{
		{
			name: "commands-errors-are-obeyed", breaks: "what a command quotes of a record on stderr moves the terminal's cursor and sets its title",
			file: "internal/cli/execstderr.go",
			find: "	if !isTerminal(a.stderr) {\n", put: "	if true {\n",
			pkg: cli, test: "TestATerminalObeysNoCommandsErrors$",
		},
		{
			name: "half-lines-of-commands", breaks: "lines of commands that run beside each other are mixed, and characters cut in two",
			file: "internal/cli/execstderr.go",
			find: "	end := bytes.LastIndexByte(s.rest, '\\n') + 1\n", put: "	end := len(s.rest) + 0*bytes.LastIndexByte(s.rest, '\\n')\n",
			pkg: cli, test: "TestLinesOfCommandsStayWhole$",
		},
		{
			name: "a-pipe-for-each-command", breaks: "a command that leaves something running fails again and again on a terminal, and nowhere else",
			file: "internal/cli/execstderr.go",
			find: "	if err != nil {\n		return lines,", put: "	if err == nil {\n		return lines,",
			pkg: cli, test: "TestACommandOnATerminalEndsBeforeWhatItLeavesRunning$",
		},
		{
			name: "last-words-of-commands", breaks: "what a command says last on stderr, without a newline, is never seen on a terminal",
			file: "internal/cli/execstderr.go",
			find: "		lines.end()\n", put: "",
			pkg: cli, test: "TestACommandOnATerminalEndsBeforeWhatItLeavesRunning$",
		},
		{
			name: "discards-unasked", breaks: "one line discards all dead letters, and nobody was asked",
			file: "internal/cli/deadletters.go",
			find: "o.DryRun = dry || discards && !yes && a.asks()", put: "o.DryRun = dry || discards && yes && a.asks()",
			pkg: cli, test: "TestDiscardAsksOnATerminal$",
		},
		{
			name: "hold-below-nothing", breaks: "a hold below nothing is taken for none",
			file: "internal/cli/numbers.go",
			find: "		case d < 0:\n", put: "		case d < 0 && f.Name != \"hold\":\n",
			pkg: cli, test: "TestScripts$/^usage$",
		},
		{
			name: "unreached-without-a-remedy", breaks: "the error of a server that is away does not say what to do",
			file: "internal/cli/remedy.go",
			find: "away != nil {\n", put: "away == nil && err == nil {\n",
			pkg: cli, test: "TestAStoreThatCannotBeReachedSaysWhatToDo$",
		},
		{
			name: "internal-topics-unmarked", breaks: "the topics of subscriptions stand in the list as if they were users'",
			file: "internal/document/topic.go",
			find: ", Internal: t.Internal}\n", put: "}\n",
			pkg: cli, test: "TestScripts$/^subscription$",
		},
	}
}
