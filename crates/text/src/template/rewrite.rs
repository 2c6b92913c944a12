//! Rewrites a parsed template so that every operation that can build a large value asks the [`Budget`] first.
//!
//! The template engine counts instructions, but one instruction can double a string, so instructions alone bound
//! neither memory nor time. Three calls are therefore put into the syntax tree, under names that no template can spell:
//! `(admit)` around what goes into an operation, `(settle)` around what comes out of one, and `(repeat)` in place of
//! `*`. Doing so before compilation also keeps the compiler from evaluating huge constants.
//!
//! [`Budget`]: super::budget::Budget

use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, Spanned, Stmt, UnaryOpKind};
use minijinja::{Error, ErrorKind, Value};

/// Checks a value that goes into an operation and returns it.
pub(super) const ADMIT: &str = "(admit)";
/// As [`ADMIT`] for the left side of `a[b]`: only strings cost anything.
pub(super) const TOUCH: &str = "(touch)";
/// Accounts for a new value and returns it, as a list if it was lazy.
pub(super) const SETTLE: &str = "(settle)";
/// As [`SETTLE`] for what is stored in a namespace, which must not hold namespaces.
pub(super) const STORE: &str = "(store)";
/// The operator `*`.
pub(super) const REPEAT: &str = "(repeat)";
/// Holds the text of a block before its filter is applied.
const BLOCK: &str = "(block)";

/// The deepest nesting of a template's syntax tree. A chain of n operators is n deep.
const MAX_DEPTH: usize = 1000;

/// Rewrites a whole template.
///
/// # Errors
/// The template nests too deeply or uses statements that take in other templates.
pub(super) fn rewrite<'a>(template: &Stmt<'a>) -> Result<Stmt<'a>, Error> {
    let mut statements = Rewriter { depth: 0 }.statement(template)?;
    match statements.pop() {
        Some(statement) if statements.is_empty() => Ok(statement),
        _ => Err(Error::new(ErrorKind::SyntaxError, "not one template")),
    }
}

struct Rewriter {
    depth: usize,
}

impl Rewriter {
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return Err(Error::new(ErrorKind::SyntaxError, format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn body<'a>(&mut self, body: &[Stmt<'a>]) -> Result<Vec<Stmt<'a>>, Error> {
        let mut all = Vec::with_capacity(body.len());
        for statement in body {
            all.extend(self.nested(|r| r.statement(statement))?);
        }
        Ok(all)
    }

    /// One statement becomes one or two.
    fn statement<'a>(&mut self, statement: &Stmt<'a>) -> Result<Vec<Stmt<'a>>, Error> {
        Ok(vec![match statement {
            Stmt::Template(t) => {
                Stmt::Template(Spanned::new(ast::Template { children: self.body(&t.children)? }, t.span()))
            }
            Stmt::EmitExpr(e) => emit(self.expr(&e.expr)?, e.span()),
            Stmt::EmitRaw(e) => emit(constant(e.raw, e.span()), e.span()),
            Stmt::ForLoop(f) => self.for_loop(f)?,
            Stmt::IfCond(i) => Stmt::IfCond(Spanned::new(
                ast::IfCond {
                    expr: self.expr(&i.expr)?,
                    true_body: self.body(&i.true_body)?,
                    false_body: self.body(&i.false_body)?,
                },
                i.span(),
            )),
            Stmt::WithBlock(w) => self.with_block(w)?,
            Stmt::Set(s) => {
                let expr = self.expr(&s.expr)?;
                self.set(&s.target, expr, s.span())?
            }
            Stmt::SetBlock(s) => return self.set_block(s),
            Stmt::FilterBlock(f) => {
                let block = self.capture(&f.body, f.span())?;
                return Ok(vec![block, emit(self.expr(&f.filter)?, f.span())]);
            }
            Stmt::Macro(m) => Stmt::Macro(self.macro_declaration(m)?),
            Stmt::CallBlock(c) => Stmt::CallBlock(Spanned::new(
                ast::CallBlock { call: self.call(&c.call)?, macro_decl: self.macro_declaration(&c.macro_decl)? },
                c.span(),
            )),
            Stmt::Continue(c) => Stmt::Continue(Spanned::new(ast::Continue, c.span())),
            Stmt::Break(b) => Stmt::Break(Spanned::new(ast::Break, b.span())),
            Stmt::Do(d) => Stmt::Do(Spanned::new(ast::Do { call: self.call(&d.call)? }, d.span())),
            _ => {
                let message = "a chat template cannot use block, extends, include, import or autoescape";
                return Err(Error::new(ErrorKind::SyntaxError, message));
            }
        }])
    }

    fn for_loop<'a>(&mut self, f: &Spanned<ast::ForLoop<'a>>) -> Result<Stmt<'a>, Error> {
        let node = ast::ForLoop {
            target: self.target(&f.target)?,
            iter: self.admitted(&f.iter)?,
            filter_expr: self.optional(&f.filter_expr)?,
            recursive: f.recursive,
            body: self.body(&f.body)?,
            else_body: self.body(&f.else_body)?,
        };
        Ok(Stmt::ForLoop(Spanned::new(node, f.span())))
    }

    fn with_block<'a>(&mut self, w: &Spanned<ast::WithBlock<'a>>) -> Result<Stmt<'a>, Error> {
        let mut assignments = Vec::with_capacity(w.assignments.len());
        for (target, expr) in &w.assignments {
            let expr = self.expr(expr)?;
            assignments.push((self.target(target)?, stored(target, expr)));
        }
        Ok(Stmt::WithBlock(Spanned::new(ast::WithBlock { assignments, body: self.body(&w.body)? }, w.span())))
    }

    fn set<'a>(&mut self, target: &Expr<'a>, expr: Expr<'a>, span: Span) -> Result<Stmt<'a>, Error> {
        Ok(Stmt::Set(Spanned::new(ast::Set { target: self.target(target)?, expr: stored(target, expr) }, span)))
    }

    fn set_block<'a>(&mut self, s: &Spanned<ast::SetBlock<'a>>) -> Result<Vec<Stmt<'a>>, Error> {
        let block = self.capture(&s.body, s.span())?;
        let text = match &s.filter {
            Some(filter) => self.expr(filter)?,
            None => variable(BLOCK, s.span()),
        };
        Ok(vec![block, self.set(&s.target, text, s.span())?])
    }

    /// Renders a body into the variable [`BLOCK`].
    fn capture<'a>(&mut self, body: &[Stmt<'a>], span: Span) -> Result<Stmt<'a>, Error> {
        let node = ast::SetBlock { target: variable(BLOCK, span), filter: None, body: self.body(body)? };
        Ok(Stmt::SetBlock(Spanned::new(node, span)))
    }

    fn macro_declaration<'a>(&mut self, m: &Spanned<ast::Macro<'a>>) -> Result<Spanned<ast::Macro<'a>>, Error> {
        let node = ast::Macro {
            name: m.name,
            args: m.args.iter().map(|a| self.target(a)).collect::<Result<_, _>>()?,
            defaults: m.defaults.iter().map(|d| self.expr(d)).collect::<Result<_, _>>()?,
            body: self.body(&m.body)?,
        };
        Ok(Spanned::new(node, m.span()))
    }

    /// Left side of an assignment.
    fn target<'a>(&mut self, target: &Expr<'a>) -> Result<Expr<'a>, Error> {
        match target {
            Expr::List(l) => {
                let items = l.items.iter().map(|i| self.nested(|r| r.target(i))).collect::<Result<_, _>>()?;
                Ok(Expr::List(Spanned::new(ast::List { items }, l.span())))
            }
            _ => self.expr(target),
        }
    }

    fn optional<'a>(&mut self, expr: &Option<Expr<'a>>) -> Result<Option<Expr<'a>>, Error> {
        expr.as_ref().map(|e| self.expr(e)).transpose()
    }

    fn all<'a>(&mut self, exprs: &[Expr<'a>]) -> Result<Vec<Expr<'a>>, Error> {
        exprs.iter().map(|e| self.expr(e)).collect()
    }

    fn admitted<'a>(&mut self, expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
        let rewritten = self.expr(expr)?;
        // A constant is no longer than the template itself.
        Ok(if matches!(rewritten, Expr::Const(_)) { rewritten } else { call(ADMIT, vec![rewritten], expr.span()) })
    }

    fn expr<'a>(&mut self, expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
        self.nested(|r| r.expr_here(expr))
    }

    fn expr_here<'a>(&mut self, expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
        let span = expr.span();
        Ok(match expr {
            Expr::Var(v) => variable(v.id, span),
            Expr::Const(c) => Expr::Const(Spanned::new(ast::Const { value: c.value.clone() }, span)),
            Expr::Slice(s) => self.slice(s)?,
            Expr::UnaryOp(u) => {
                let op = if matches!(u.op, UnaryOpKind::Not) { UnaryOpKind::Not } else { UnaryOpKind::Neg };
                Expr::UnaryOp(Spanned::new(ast::UnaryOp { op, expr: self.expr(&u.expr)? }, span))
            }
            Expr::BinOp(b) => self.operator(b)?,
            Expr::Compare(c) => self.comparison(c)?,
            Expr::IfExpr(i) => self.if_expr(i)?,
            Expr::Filter(f) => self.filter(f)?,
            Expr::Test(t) => self.test(t)?,
            Expr::GetAttr(g) => {
                Expr::GetAttr(Spanned::new(ast::GetAttr { expr: self.expr(&g.expr)?, name: g.name }, span))
            }
            Expr::GetItem(g) => {
                let expr = call(TOUCH, vec![self.expr(&g.expr)?], span);
                let node = ast::GetItem { expr, subscript_expr: self.admitted(&g.subscript_expr)? };
                Expr::GetItem(Spanned::new(node, span))
            }
            Expr::Call(c) => {
                let rewritten = Expr::Call(self.call(c)?);
                // The engine recognises `{{ loop(…) }}` by its shape; what it yields is output that is accounted for.
                if is_variable(&c.expr, "loop") { rewritten } else { settled(rewritten) }
            }
            Expr::List(l) => settled(Expr::List(Spanned::new(ast::List { items: self.all(&l.items)? }, span))),
            Expr::Tuple(t) => settled(Expr::Tuple(Spanned::new(ast::Tuple { items: self.all(&t.items)? }, span))),
            Expr::Map(m) => {
                let node = ast::Map { keys: self.all(&m.keys)?, values: self.all(&m.values)? };
                settled(Expr::Map(Spanned::new(node, span)))
            }
        })
    }

    fn slice<'a>(&mut self, s: &Spanned<ast::Slice<'a>>) -> Result<Expr<'a>, Error> {
        let node = ast::Slice {
            expr: self.admitted(&s.expr)?,
            start: self.optional(&s.start)?,
            stop: self.optional(&s.stop)?,
            step: self.optional(&s.step)?,
        };
        Ok(settled(Expr::Slice(Spanned::new(node, s.span()))))
    }

    fn if_expr<'a>(&mut self, i: &Spanned<ast::IfExpr<'a>>) -> Result<Expr<'a>, Error> {
        let node = ast::IfExpr {
            test_expr: self.expr(&i.test_expr)?,
            true_expr: self.expr(&i.true_expr)?,
            false_expr: self.optional(&i.false_expr)?,
        };
        Ok(Expr::IfExpr(Spanned::new(node, i.span())))
    }

    fn operator<'a>(&mut self, b: &Spanned<ast::BinOp<'a>>) -> Result<Expr<'a>, Error> {
        use BinOpKind::{Add, Concat, Div, FloorDiv, Mul, Pow, Rem, ScAnd, ScOr, Sub};
        let (left, right) = match b.op {
            // These take numbers only, or hand one side on as it is.
            Sub | Div | FloorDiv | Rem | Pow | ScAnd | ScOr => (self.expr(&b.left)?, self.expr(&b.right)?),
            _ => (self.admitted(&b.left)?, self.admitted(&b.right)?),
        };
        if matches!(b.op, Mul) {
            return Ok(call(REPEAT, vec![left, right], b.span()));
        }
        let node = Expr::BinOp(Spanned::new(ast::BinOp { op: b.op, left, right }, b.span()));
        Ok(if matches!(b.op, Add | Concat) { settled(node) } else { node })
    }

    fn comparison<'a>(&mut self, c: &Spanned<ast::Compare<'a>>) -> Result<Expr<'a>, Error> {
        let ops = c.ops.iter().map(|o| {
            let op: CompareOpKind = o.op;
            Ok(ast::CompareOp { op, expr: self.admitted(&o.expr)? })
        });
        let ops = ops.collect::<Result<_, Error>>()?;
        Ok(Expr::Compare(Spanned::new(ast::Compare { expr: self.admitted(&c.expr)?, ops }, c.span())))
    }

    /// Filters and tests ask the budget themselves, because `map` and `select` call them too.
    fn filter<'a>(&mut self, f: &Spanned<ast::Filter<'a>>) -> Result<Expr<'a>, Error> {
        let expr = match &f.expr {
            Some(expr) => self.expr(expr)?,
            None => variable(BLOCK, f.span()),
        };
        let node = ast::Filter { name: f.name, expr: Some(expr), args: self.arguments(&f.args)? };
        Ok(Expr::Filter(Spanned::new(node, f.span())))
    }

    fn test<'a>(&mut self, t: &Spanned<ast::Test<'a>>) -> Result<Expr<'a>, Error> {
        let node = ast::Test { name: t.name, expr: self.expr(&t.expr)?, args: self.arguments(&t.args)? };
        Ok(Expr::Test(Spanned::new(node, t.span())))
    }

    fn call<'a>(&mut self, c: &Spanned<ast::Call<'a>>) -> Result<Spanned<ast::Call<'a>>, Error> {
        let callee = match &c.expr {
            Expr::GetAttr(method) if !is_variable(&method.expr, "loop") => {
                let node = ast::GetAttr { expr: self.admitted(&method.expr)?, name: method.name };
                Expr::GetAttr(Spanned::new(node, method.span()))
            }
            callee => self.expr(callee)?,
        };
        let positional = c.args.iter().any(|arg| matches!(arg, CallArg::Pos(_)));
        if !positional && matches!(&c.expr, Expr::GetAttr(method) if method.name == "cycle") {
            // The engine divides by the number of arguments.
            return Err(Error::new(ErrorKind::SyntaxError, "cycle() needs something to cycle through"));
        }
        Ok(Spanned::new(ast::Call { expr: callee, args: self.arguments(&c.args)? }, c.span()))
    }

    fn arguments<'a>(&mut self, args: &[CallArg<'a>]) -> Result<Vec<CallArg<'a>>, Error> {
        let rewrite = |arg: &CallArg<'a>| {
            Ok(match arg {
                CallArg::Pos(e) => CallArg::Pos(self.admitted(e)?),
                CallArg::Kwarg(name, e) => CallArg::Kwarg(name, self.admitted(e)?),
                CallArg::PosSplat(e) => CallArg::PosSplat(self.admitted(e)?),
                CallArg::KwargSplat(e) => CallArg::KwargSplat(self.admitted(e)?),
            })
        };
        args.iter().map(rewrite).collect()
    }
}

fn variable<'a>(id: &'a str, span: Span) -> Expr<'a> {
    Expr::Var(Spanned::new(ast::Var { id }, span))
}

fn constant<'a>(text: &str, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(ast::Const { value: Value::from(text) }, span))
}

fn emit<'a>(expr: Expr<'a>, span: Span) -> Stmt<'a> {
    Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, span))
}

fn settled(expr: Expr<'_>) -> Expr<'_> {
    let span = expr.span();
    call(SETTLE, vec![expr], span)
}

/// Assigned expression: an attribute on the left is that of a namespace.
fn stored<'a>(target: &Expr<'a>, expr: Expr<'a>) -> Expr<'a> {
    if matches!(target, Expr::GetAttr(_)) { call(STORE, vec![expr], target.span()) } else { expr }
}

fn call<'a>(name: &'static str, args: Vec<Expr<'a>>, span: Span) -> Expr<'a> {
    let args = args.into_iter().map(CallArg::Pos).collect();
    Expr::Call(Spanned::new(ast::Call { expr: variable(name, span), args }, span))
}

fn is_variable(expr: &Expr<'_>, name: &str) -> bool {
    matches!(expr, Expr::Var(v) if v.id == name)
}
