package main

// pushMutants are bugs of the delivery to endpoints, which are strangers.
func pushMutants() []mutant {
	const push = "push"
	return []mutant{
		{
			name: "redirection-followed", breaks: "an endpoint makes us send a record to where it likes",
			file: "push/endpoint.go",
			find: "return http.ErrUseLastResponse", put: "return nil",
			pkg: push, test: "TestARedirectionIsNotFollowed$",
		},
		{
			name: "addresses-not-guarded", breaks: "a name that leads to this host or a private network reaches what is there",
			file: "push/endpoint.go",
			find: "ControlContext: g.control, ", put: "",
			pkg: push, test: "TestANameThatLeadsToThisHostReachesNothing$",
		},
		{
			name: "addresses-in-ipv6-not-known", breaks: "an address of a private network is dialed when it is written as one of IPv6",
			file: "push/guard.go",
			find: "	addr = addr.WithZone(\"\").Unmap()\n", put: "	addr = addr.WithZone(\"\")\n",
			pkg: push, test: "TestAddressesForSpecialPurposesAreRefused$",
		},
		{
			name: "answer-without-bound", breaks: "an endpoint that answers without end takes all memory",
			file: "push/answer.go",
			find: "io.LimitReader(body, limits.EndpointAnswerBytes)", put: "io.LimitReader(body, limits.EndpointAnswerBytes<<20)",
			pkg: push, test: "TestOfAnAnswerIsReadWhatTheLimitSays$",
		},
		{
			name: "retry-after-ignored", breaks: "an endpoint that asks for a pause gets none",
			file: "push/answer.go",
			find: "now); wait > 0 {\n", put: "now); wait < 0 {\n",
			pkg: push, test: "TestWhatAnAnswerMeans$",
		},
		{
			name: "retry-after-without-bound", breaks: "an endpoint holds its records back for ever with one header",
			file: "push/answer.go",
			find: "	return min(max(0, at.Sub(now)), longestWait)\n", put: "	return max(0, at.Sub(now))\n",
			pkg: push, test: "TestTheWaitOfAnAnswerIsUnderstoodAndBounded$",
		},
		{
			name: "signed-other-bytes", breaks: "the signature is not over what is sent, and no receiver can verify it",
			file: "push/secret.go",
			find: "		mac.Write(body)\n", put: "		mac.Write(body[:len(body)/2])\n",
			pkg: push, test: "TestASignatureIsThatOfStandardWebhooks$",
		},
		{
			name: "header-injected", breaks: "a record's key or header makes a header of its own in the request",
			file: "push/header.go",
			find: "		if s[i] < ' ' || s[i] > '~' {\n", put: "		if s[i] > '~' {\n",
			pkg: push, test: "TestARecordInjectsNoHeader$",
		},
		{
			name: "header-name-unchecked", breaks: "a header of a record whose name HTTP can't carry breaks the request, or is lost",
			file: "push/header.go",
			find: "		if !token(r.Name) || !plain(value) {\n", put: "		if !plain(value) {\n",
			pkg: push, test: "TestARecordInjectsNoHeader$",
		},
	}
}
