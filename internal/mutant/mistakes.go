package main

// mistakeMutants are bugs that take a mistake in a command line for something else.
func mistakeMutants() []mutant {
	return []mutant{
		{
			name: "missing-file-is-usage", breaks: "a script that asks for exit code 3 takes a value file that is not there for a wrong command line",
			file: "internal/cli/deadletters.go",
			find: "	case errors.Is(err, os.ErrNotExist):", put: "	case false:",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "missing-secret-is-usage", breaks: "a script that asks for exit code 3 takes a secret file that is not there for a wrong command line",
			file: "push/secret.go",
			find: "	if errors.Is(err, os.ErrNotExist) {", put: "	if false {",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "negative-limit-is-all", breaks: "dead letters are listed without an end, as somebody mistyped the limit",
			file: "internal/cli/numbers.go",
			find: "case n < least:", put: "case false:",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "no-time-is-the-default", breaks: "a time of 0 for an attempt at an endpoint is silently 30 seconds",
			file: "internal/cli/subscription.go",
			find: "\"retry-max\", \"timeout\"}", put: "\"retry-max\"}",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "pauses-contradict", breaks: "a first pause that is longer than the longest is taken without a word",
			file: "internal/cli/consume.go",
			find: "|| o.RetryInitial <= o.RetryMax,", put: "|| true,",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "empty-is-the-default", breaks: "a variable of a shell that is not set leads to another store, or to deliveries without a signature",
			file: "internal/cli/given.go",
			find: "case !f.Changed || !isEmpty(f.Value) || slices.Contains(mayBeEmpty, f.Name):", put: "case true:",
			pkg: "internal/cli", test: "TestMistakesInALineAreToldTogether$",
		},
		{
			name: "missing-flag-alone", breaks: "who has mended all mistakes in a line is told the next one, a flag that is missing",
			file: "internal/cli/given.go",
			find: "isRequired(f) && !f.Changed {", put: "isRequired(f) && what == \"\" {",
			pkg: "internal/cli", test: "TestMistakesInALineAreToldTogether$",
		},
		{
			name: "flag-before-command", breaks: "a mistyped command is told as a flag that nobody knows",
			file: "internal/cli/suggest.go",
			find: "cmd.HasSubCommands() && word != \"\" {", put: "false {",
			pkg: "internal/cli", test: "TestMistakesInALineAreToldTogether$",
		},
		{
			name: "checks-want-arguments", breaks: "a line without a name ends in a panic",
			file: "internal/cli/deadletters.go",
			find: "Args()[min(1, cmd.Flags().NArg()):]", put: "Args()[1:]",
			pkg: "internal/cli", test: "TestMistakesInALineAreToldTogether$",
		},
		{
			name: "missing-token-file-is-usage", breaks: "a script that asks for exit code 3 takes a file of tokens that is not there for a wrong command line",
			file: "internal/cli/serve.go",
			find: "errors.Is(err, os.ErrNotExist) {", put: "false {",
			pkg: "internal/cli", test: "TestMistakesInALineAreToldTogether$",
		},
		{
			name: "subscription-times-in-milliseconds", breaks: "a script reads the times of a subscription in another form than all others",
			file: "internal/cli/output.go",
			find: "v = documentOf(shownSubscription(d))", put: "v = shownSubscription(d)",
			pkg: "internal/cli", test: "TestScripts$/^words$",
		},
		{
			name: "event-without-endpoint", breaks: "a file of apply that has cloudevents and no endpoint is told that the endpoint \"\" is wrong",
			file: "internal/apply/decode.go",
			find: "there && c.Endpoint.URL == \"\"", put: "false && there && c.Endpoint.URL == \"\"",
			pkg: "internal/cli", test: "TestScripts$/^words$",
		},
		{
			name: "hold-of-nothing-is-refused", breaks: "a hold of 0 means not at all on the command line, and is refused in a file of apply",
			file: "internal/apply/fields.go",
			find: "err == nil && d <= 0 && off", put: "err == nil && d < 0 && off",
			pkg: "internal/cli", test: "TestScripts$/^words$",
		},
		{
			name: "deadline-in-words-of-go", breaks: "who has set --timeout is told of a context",
			file: "internal/cli/errortext.go",
			find: "fault.ExitCode(err) == fault.ExitTimeout", put: "false",
			pkg: "internal/cli", test: "TestScripts$/^words$",
		},
		{
			name: "endpoint-shown-whole", breaks: "pausing a subscription prints the secret in the URL of its endpoint",
			file: "internal/cli/output.go",
			find: "v = documentOf(shownSubscription(d))", put: "v = documentOf(d)",
			pkg: "internal/cli", test: "TestNoCommandShowsWhatIsSecretInAnEndpoint$",
		},
		{
			name: "key-of-another-record", breaks: "the command for a record without a key gets that of the record which runs its process",
			file: "internal/cli/consume.go",
			find: "environ := withoutKey(a.environ)", put: "environ := a.environ",
			pkg: "internal/cli", test: "TestARecordWithoutAKeyGetsNoneOfAnother$",
		},
		{
			name: "question-outlives-command", breaks: "Ctrl-C at a question is told two seconds later, as if something were left unfinished",
			file: "internal/cli/terminal.go",
			find: "	case <-ctx.Done():\n		return got, context.Cause(ctx)\n", put: "	case <-context.Background().Done():\n		return got, context.Cause(ctx)\n",
			pkg: "internal/cli", test: "TestWhatNobodyTypesEndsWithTheCommand$",
		},
		{
			name: "subscriptions-not-offered", breaks: "the shell offers files where the name of a subscription is expected",
			file: "internal/cli/subscription.go",
			find: "			c.ValidArgsFunction = a.completeSubscriptionArg\n", put: "",
			pkg: "internal/cli", test: "TestSubscriptionsAreNamed$",
		},
		{
			name: "nobody-delivers-untold", breaks: "a subscription that nobody delivers is described as if nothing were to do",
			file: "internal/cli/subscription.go",
			find: "				case len(problems) == 0:\n", put: "				case false:\n",
			pkg: "internal/cli", test: "TestSubscriptionsAreNamed$",
		},
		{
			name: "name-told-another-limit", breaks: "a name that is none for a subscription is refused with a limit that is not that of subscriptions",
			file: "subscription/document.go",
			find: "		return badName(name)\n", put: "		return registry.CheckID(\"subscription\", name)\n",
			pkg: "internal/cli", test: "TestSubscriptionsAreNamed$",
		},
		{
			name: "drawn-over-typing", breaks: "progress is drawn over the record that somebody types",
			file: "internal/cli/progress.go",
			find: "	if p.silent {\n", put: "	if false {\n",
			pkg: "internal/cli", test: "TestNothingIsDrawnOverWhatIsTyped$",
		},
		{
			name: "token-beside-a-path", breaks: "a token beside a URL with a path goes nowhere, and nobody is told",
			file: "push/secret.go",
			find: "!isOrigin(fields[0])", put: "!strings.Contains(fields[0], \"://\")",
			pkg: "push", test: "TestATokenGoesToItsOriginAlone$",
		},
	}
}
