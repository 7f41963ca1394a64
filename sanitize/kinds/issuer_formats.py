"""The forms of tokens, keys and password hashes that show by themselves whose they are: one row for
each form.

A row is what the issuer documents, or registers with those who scan published code. Lengths and
alphabets matter, since a prefix alone is not sufficient. A rest has a maximum length where one that
fails late would otherwise be searched to its end again from every number in it.
"""

from __future__ import annotations

from typing import NamedTuple

_WORD = "[A-Za-z0-9]"
_BASE64URL = "[A-Za-z0-9_-]"  # the alphabet of base64 for URLs
_HEX = "[0-9a-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


class IssuerFormat(NamedTuple):
    """`prefix` has sets such as `[rs]` and groups such as `(?:live|test)`, not nested; it stays in
    a surrogate. Where there is none, one of `anchors` is in every token."""

    issuer: str
    prefix: str
    rest: str
    anchors: tuple[str, ...] = ()


ISSUER_FORMATS = tuple(
    IssuerFormat(*row)
    for row in (
        ("Amazon Web Services", "(?:AKIA|ASIA)", "[A-Z0-9]{16}"),
        ("Amazon Bedrock", "ABSK", "[A-Za-z0-9+/]{100,270}={0,2}"),
        ("Amazon MWS", "amzn[.]mws[.]", _UUID),
        ("Alibaba Cloud", "LTAI", f"{_WORD}{{12,30}}"),
        ("Tencent Cloud", "AKID", f"{_WORD}{{32}}"),
        ("Volcengine", "AKLT", f"{_BASE64URL}{{30,60}}"),
        ("Google", "AIza", f"{_BASE64URL}{{35}}"),
        ("Google client", "GOCSPX-", f"{_BASE64URL}{{28}}"),
        ("Google access", "ya29[.]", f"{_BASE64URL}{{20,}}"),
        ("Google refresh", "1//0", f"{_BASE64URL}{{40,}}"),
        (
            "Microsoft Entra",
            "",
            "[A-Za-z0-9_][A-Za-z0-9_~.]{2}[78]Q~[A-Za-z0-9_~.-]{31,34}",
            ("7Q~", "8Q~"),
        ),
        ("GitHub", "gh[pousr]_", f"{_WORD}{{36,}}"),
        ("GitHub, fine-grained", "github_pat_", f"{_WORD}{{22}}_{_WORD}{{59}}"),
        (
            "GitLab",
            "gl(?:pat|dt|rt|rtr|cbt|ptt|ft|oas|soat|agent|imt|ffct|wt)-",
            # a routable token ends in a length and a checksum
            f"{_BASE64URL}{{20,}}(?:[.][0-9a-z]{{2}}(?:[.][0-9a-z]{{2}})?[0-9a-z]{{7}})?",
        ),
        ("GitLab runner", "GR1348941", f"{_BASE64URL}{{20}}"),
        ("Bitbucket", "ATBB", f"{_WORD}{{32}}"),
        ("Bitbucket repository", "ATCTT3", "[A-Za-z0-9_=-]{100,300}"),
        ("Atlassian", "ATATT3", "[A-Za-z0-9_=-]{60,300}"),
        ("Trello", "ATTA", f"{_HEX}{{64}}{_WORD}{{8}}"),
        ("Slack", "xox[abceoprs]-", f"[0-9]{_BASE64URL}{{9,}}"),
        ("Slack app", "xapp-", f"[0-9]-{_BASE64URL}{{20,}}"),
        ("Slack cookie", "xoxd-", "[A-Za-z0-9%+/=_-]{40,}"),
        (
            "Slack webhook",
            "hooks[.]slack[.]com/services/T",
            f"[A-Z0-9]{{8,11}}/B[A-Z0-9]{{8,11}}/{_WORD}{{24}}",
        ),
        (
            "Slack workflow",
            "hooks[.]slack[.]com/(?:workflows|triggers)/",
            f"[A-Z0-9]{{9,12}}/[A-Z0-9]{{9,20}}/(?:[0-9]{{9,20}}/)?{_WORD}{{24,32}}",
        ),
        (
            "Discord",  # the number of the bot in base64, a time, a MAC
            "",
            f"(?:M[Tjz]|N[DTjz]|O[DT]){_BASE64URL}{{21,25}}[.]{_BASE64URL}{{6}}"
            f"[.]{_BASE64URL}{{27,40}}",
            ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        ),
        ("Discord, two factors", "mfa[.]", f"{_BASE64URL}{{84}}"),
        (
            "Discord webhook",
            "(?:discord|discordapp)[.]com/api/webhooks/",
            f"[0-9]{{17,20}}/{_BASE64URL}{{60,}}",
        ),
        ("Stripe", "[rs]k_(?:live|test|prod)_", f"{_WORD}{{16,}}"),
        ("Stripe webhook", "whsec_", "[A-Za-z0-9+/]{32,}"),
        ("Square", "sq0(?:csp|atp|idp)-", f"{_BASE64URL}{{22,50}}"),
        ("Square access", "EAAA", f"{_BASE64URL}{{60}}"),
        (
            "Braintree",
            "access_token[$](?:production|sandbox)[$]",
            f"[0-9a-z]{{16}}[$]{_HEX}{{32}}",
        ),
        ("Flutterwave", "(?:FLWSECK-|FLWSECK_TEST-)", f"{_HEX}{{12,32}}"),
        ("Razorpay", "rzp_(?:live|test)_", f"{_WORD}{{14}}"),
        ("Adyen", "AQE", "[A-Za-z0-9+/]{60,120}[=-]+[A-Za-z0-9+/=-]{20,60}"),
        ("Shopify", "shp(?:at|ca|pa|ss)_", f"{_HEX}{{32}}"),
        ("Shippo", "shippo_(?:live|test)_", f"{_HEX}{{40}}"),
        ("EasyPost", "EZ[AT]K", f"{_WORD}{{54}}"),
        (
            "Anthropic, OpenAI, OpenRouter",
            "sk-(?:ant|proj|svcacct|admin|or)-",
            f"{_BASE64URL}{{20,}}",
        ),
        ("Langfuse", "sk-lf-", _UUID),
        ("OpenAI", "sk-", f"{_WORD}{{32,}}"),
        ("Hugging Face", "hf_", f"{_WORD}{{34}}"),
        ("Hugging Face organization", "api_org_", f"{_WORD}{{34}}"),
        ("Groq", "gsk_", f"{_WORD}{{52}}"),
        ("Perplexity", "pplx-", f"{_WORD}{{48}}"),
        ("Replicate", "r8_", f"{_WORD}{{37}}"),
        ("xAI", "xai-", f"{_WORD}{{70,90}}"),
        ("NVIDIA", "nvapi-", f"{_BASE64URL}{{60,70}}"),
        ("LangSmith", "lsv2_(?:pt|sk)_", f"{_HEX}{{32}}_{_HEX}{{10}}"),
        ("Tavily", "tvly-", f"{_BASE64URL}{{32,45}}"),
        ("Pinecone", "pcsk_", f"{_BASE64URL}{{60,80}}"),
        ("Apify", "apify_api_", f"{_WORD}{{36}}"),
        # JSON Web Token, signed (RFC 7519)
        ("JWT", "eyJ", f"{_BASE64URL}{{8,200}}[.]eyJ{_BASE64URL}{{8,}}[.]{_BASE64URL}{{16,}}"),
        ("npm", "npm_", f"{_WORD}{{36}}"),
        ("PyPI", "pypi-AgE", f"{_BASE64URL}{{50,}}"),
        ("RubyGems", "rubygems_", f"{_HEX}{{48}}"),
        ("NuGet", "oy2", "[a-z0-9]{43}"),
        ("crates.io", "cio", f"{_WORD}{{32}}"),
        ("Clojars", "CLOJARS_", "[a-z0-9]{60}"),
        ("Artifactory", "AKCp", f"{_WORD}{{69,}}"),
        ("Docker Hub", "dckr_[po]at_", f"{_BASE64URL}{{27,32}}"),
        ("SendGrid", "SG[.]", f"{_BASE64URL}{{22}}[.]{_BASE64URL}{{43}}"),
        ("Mailgun", "key-", f"{_HEX}{{32}}"),
        (
            "Mailchimp",
            "",
            f"{_HEX}{{32}}-us[0-9]{{1,2}}",
            ("-us",),
        ),
        ("Brevo", "x(?:keysib|smtpsib)-", f"{_HEX}{{64}}-{_WORD}{{16}}"),
        ("Resend", "re_", f"{_WORD}{{8}}_{_WORD}{{20,24}}"),
        ("Twilio", "(?:SK|AC)", f"{_HEX}{{32}}"),
        ("DigitalOcean", "do[opr]_v1_", f"{_HEX}{{64}}"),
        ("Heroku", "HRKU-", f"{_BASE64URL}{{36,64}}"),
        ("Fly.io", "fm[12]_", "[A-Za-z0-9+/=_-]{100,}"),
        ("Netlify", "nfp_", f"{_WORD}{{36,40}}"),
        ("Render", "rnd_", f"{_WORD}{{28}}"),
        ("Supabase", "sbp_", f"{_HEX}{{40}}"),
        ("PlanetScale", "pscale_(?:tkn|pw|oauth)_", "[A-Za-z0-9=._-]{32,64}"),
        ("Neon", "npg_", f"{_WORD}{{12,24}}"),
        ("Doppler", "dp[.](?:pt|st|ct|sa|scim|audit)[.]", "[A-Za-z0-9._-]{40,}"),
        ("HashiCorp Vault", "hv[bsr][.]", f"{_BASE64URL}{{24,}}"),
        ("Terraform", "", f"{_WORD}{{14}}[.]atlasv1[.][A-Za-z0-9_=-]{{60,70}}", (".atlasv1.",)),
        ("Pulumi", "pul-", f"{_HEX}{{40}}"),
        ("Prefect", "pn[ub]_", f"{_WORD}{{36}}"),
        ("Databricks", "dapi", f"{_HEX}{{32}}(?:-[0-9])?"),
        ("Cloudflare", "v1[.]0-", f"{_HEX}{{24}}-{_HEX}{{146}}"),
        ("1Password service account", "ops_eyJ", "[A-Za-z0-9+/=_-]{200,}"),
        (
            "1Password",
            "A3-",
            "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
        ),
        ("age", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
        ("Linear", "lin_(?:api|oauth)_", f"{_WORD}{{40}}"),
        ("Notion", "ntn_", f"[0-9]{{11}}{_WORD}{{32,35}}"),
        ("Notion, until 2024", "secret_", f"{_WORD}{{43}}"),
        ("Airtable", "pat", f"{_WORD}{{14}}[.]{_HEX}{{64}}"),
        ("Asana", "[12]/", f"[0-9]{{16}}:{_HEX}{{32}}"),
        ("Figma", "figd_", f"{_BASE64URL}{{40,44}}"),
        ("Postman", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}"),
        ("Grafana service account", "glsa_", f"{_WORD}{{32}}_{_HEX}{{8}}"),
        ("Grafana Cloud", "glc_eyJ", "[A-Za-z0-9+/]{60,}={0,2}"),
        ("New Relic", "NR(?:AK|AA|JS|II)-", "[A-Za-z0-9]{27}"),
        ("Sentry organization", "sntrys_eyJ", "[A-Za-z0-9+/=_]{80,}"),
        ("Sentry", "sntryu_", f"{_HEX}{{64}}"),
        ("Dynatrace", "dt0[cs]01[.]", "[A-Z0-9]{24}[.][A-Z0-9]{64}"),
        ("PostHog", "ph[cx]_", f"{_WORD}{{43}}"),
        ("SonarQube", "sq[pua]_", f"{_HEX}{{40}}"),
        ("CircleCI", "CCI(?:PAT|PRJ)_", f"{_WORD}{{22}}_{_HEX}{{40}}"),
        ("Buildkite", "bkua_", f"{_HEX}{{40}}"),
        ("Meta", "EAA", f"{_WORD}{{80,}}"),
        ("X", "AAAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{80,120}"),
        ("Dropbox", "sl[.]", "[A-Za-z0-9_.-]{130,}"),
        ("Mapbox", "[st]k[.]eyJ", f"{_BASE64URL}{{40,200}}[.]{_BASE64URL}{{20,}}"),
        ("Contentful", "CFPAT-", f"{_BASE64URL}{{43}}"),
        ("Typeform", "tfp_", f"{_BASE64URL}{{44,60}}"),
        ("Intercom", "dG9r", "[A-Za-z0-9+/]{54,58}={0,2}"),
        ("Sourcegraph", "sgp_", f"(?:(?:{_HEX}{{16}}|local)_)?{_HEX}{{40}}"),
        (
            "Tailscale",
            "tskey-(?:auth|api|client|scim|webhook)-",
            f"{_WORD}{{8,20}}-{_WORD}{{20,40}}",
        ),
        ("ReadMe", "rdme_", "[a-z0-9]{70}"),
        ("Frame.io", "fio-u-", f"{_BASE64URL}{{64}}"),
    )
)
# the hash of a password in the form of crypt(3), with its salt
PASSWORD_HASHES = (
    ("[$]2[abxy][$]", "[0-9]{2}[$][A-Za-z0-9./]{53}"),  # bcrypt
    ("[$][56][$]", "(?:rounds=[0-9]{1,9}[$])?[A-Za-z0-9./]{1,16}[$][A-Za-z0-9./]{43,86}"),
    ("[$](?:1|apr1)[$]", "[A-Za-z0-9./]{1,8}[$][A-Za-z0-9./]{22}"),
    ("[$](?:argon2id|argon2i|argon2d)[$]", "[A-Za-z0-9=,$+/]{40,}[A-Za-z0-9+/]"),
    ("[$](?:y|gy|7)[$]", "[A-Za-z0-9./]{2,16}[$][A-Za-z0-9./]{8,40}[$][A-Za-z0-9./]{43}"),
)
