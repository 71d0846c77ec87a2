"""What the API says of itself."""

from typing import Any


def test_every_operation_describes_its_errors_by_the_envelope(make_app: Any, ask: Any) -> None:
    document = ask(make_app(), "/openapi.json").json
    operations = [(path, operation) for path, methods in document["paths"].items() for operation in methods.values()]
    assert operations
    for path, operation in operations:
        name = "AnthropicErrorResponse" if path.startswith("/v1/messages") else "ErrorResponse"
        envelope = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        assert {"4XX", "500", "503"} <= set(operation["responses"])
        assert "422" not in operation["responses"]
        assert operation["responses"]["4XX"]["content"] == {"application/json": envelope}
        assert "security" not in operation
    assert "ErrorResponse" in document["components"]["schemas"]
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_operations_have_names_of_their_own(make_app: Any, ask: Any) -> None:
    paths = ask(make_app(), "/openapi.json").json["paths"]
    names = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(names) == len(set(names))


def test_it_says_which_operations_need_a_key(make_app: Any, ask: Any) -> None:
    document = ask(make_app(api_keys={"a": "k"}), "/openapi.json", key="k").json
    assert "security" not in document["paths"]["/health"]["get"]
    assert {"bearer": []} in document["paths"]["/v1/models"]["get"]["security"]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "x-api-key"}
