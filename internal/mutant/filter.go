package main

// filterMutants are bugs of what a subscription delivers and what not.
func filterMutants() []mutant {
	const pkg, front = "subscription/filter", "TestOnlyWhatTheFilterIsTrueOfIsDelivered$"
	return []mutant{
		{
			name: "filter-unheeded", breaks: "a record is delivered that the filter is false of",
			file: "subscription/admit.go",
			find: "	if err == nil && !wanted {", put: "	if false && !wanted {",
			pkg: ".", test: front,
		},
		{
			name: "unjudged-is-skipped", breaks: "a record that the filter can't be computed for is finished in silence",
			file: "subscription/admit.go",
			find: "	if err == nil && !wanted {", put: "	if !wanted {",
			pkg: "subscription", test: "TestWhatAFilterCannotJudgeIsGivenUpAtOnce$",
		},
		{
			name: "unjudged-is-tried-again", breaks: "a record that the filter can't be computed for is tried again, and its key waits in memory",
			file: "subscription/admit.go",
			find: "		return false, unfit{err}", put: "		return false, err",
			pkg: "subscription", test: "TestWhatAFilterCannotJudgeIsGivenUpAtOnce$",
		},
		{
			name: "unjudged-is-delivered", breaks: "a record that the filter can't be computed for is delivered when it has waited for others of its key",
			file: "subscription/admit.go",
			find: "	if round == 0 {", put: "	if round < 0 {",
			pkg: ".", test: front,
		},
		{
			name: "decided-is-judged", breaks: "what somebody has redriven is given up by the filter, for ever",
			file: "subscription/admit.go",
			find: "	if round == 0 {", put: "	if round >= 0 {",
			pkg: ".", test: front,
		},
		{
			name: "order-in-an-old-format", breaks: "a version that knows no order by a function takes what is parked for damage, and loses it",
			file: "subscription/document.go",
			find: "				d.atLeast(orderedFormat)\n", put: "				d.atLeast(documentFormat)\n",
			pkg: ".", test: "TestWhatIsParkedKeepsTheOrderOfTheFunction$",
		},
		{
			name: "parked-by-its-own-key", breaks: "who takes a shard over delivers records of an account that wait behind one of another key",
			file: "subscription/core/codec.go",
			find: "	case carried != nil && bytes.Equal(key, carried):", put: "	case carried != nil && bytes.Equal(key, key):",
			pkg: ".", test: "TestWhatIsParkedKeepsTheOrderOfTheFunction$",
		},
		{
			name: "ordered-by-the-key-alone", breaks: "two keys of an account are delivered at the same time",
			file: "dispatch/schedule.go",
			find: "	if t.orderBy == nil {", put: "	if true {",
			pkg: "dispatch", test: "TestRecordsAreOrderedByWhatTheFunctionReturns$",
		},
		{
			name: "no-order-waits", breaks: "without an order a failing record holds back later ones of its key",
			file: "subscription/delivery/delivery.go",
			find: "		return func([]byte) []byte { return nil }", put: "		return nil",
			pkg: ".", test: "TestWithoutAnOrderAFailingRecordHoldsBackNone$",
		},
		{
			name: "no-order-waits-for-one-handler", breaks: "with one handler, a failing record holds back all others of a subscription without an order",
			file: "dispatch/intake.go",
			find: "key != nil || e.cfg.OrderBy == nil && e.cfg.Concurrency == 1", put: "key != nil || e.cfg.Concurrency == 1",
			pkg: "dispatch", test: "TestRecordsAreOrderedByWhatTheFunctionReturns$",
		},
		{
			name: "function-for-no-order", breaks: "a member without the function delivers in another order than the others",
			file: "subscription/delivery/delivery.go",
			find: "	case d.Order == subscription.ByFunction && o.OrderBy == nil:", put: "	case false:",
			pkg: ".", test: "TestAnOrderByAFunctionNeedsTheFunction$",
		},
		{
			name: "panic-of-a-filter", breaks: "a filter in Go that panics ends the process",
			file: "subscription/delivery/shards.go",
			find: "			if v := recover(); v != nil {", put: "			if v := any(nil); v != nil {",
			pkg: ".", test: "TestAFilterInGoPassesOver$",
		},
		{
			name: "filter-in-an-old-format", breaks: "a version that knows no filter delivers all records of a subscription that has one",
			file: "subscription/document.go",
			find: "				d.atLeast(filteredFormat)\n", put: "				d.atLeast(documentFormat)\n",
			pkg: ".", test: front,
		},
		{
			name: "filter-of-any-language", breaks: "an expression of a stranger takes all memory or time",
			file: "subscription/filter/filter.go",
			find: "	seen, err := check(text)\n	if err != nil {", put: "	seen, err := check(text)\n	if err != nil && text == \"\" {",
			pkg: pkg, test: "TestWhatIsNoFilterIsRefused$",
		},
		{
			name: "loops-in-loops", breaks: "an expression of a stranger takes all time",
			file: "subscription/filter/check.go",
			find: "nested(n) <= 1", put: "nested(n) <= 9",
			pkg: pkg, test: "TestWhatIsNoFilterIsRefused$",
		},
		{
			name: "nil-is-false", breaks: "what a filter can't be computed for is taken for false",
			file: "subscription/filter/filter.go",
			find: "expr.Compile(text, options...) //", put: "expr.Compile(text, append(options, expr.AsBool())...) //",
			pkg: pkg, test: "TestWhatCannotBeComputedIsAnError$",
		},
		{
			name: "numbers-as-floats", breaks: "a filter takes two large numbers for one",
			file: "subscription/filter/filter.go",
			find: "		if n, err := v.Int64(); err == nil {", put: "		if n, err := v.Int64(); err == nil && n < 0 {",
			pkg: pkg, test: "TestAnExpressionChoosesRecords$",
		},
		{
			name: "filter-chooses-the-unknown", breaks: "an order about dead letters means those that its filter can't be computed for",
			file: "subscription/delivery/choice.go",
			find: "return err == nil && yes", put: "return err != nil || yes",
			pkg: ".", test: front,
		},
	}
}
