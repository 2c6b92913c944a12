//! A training on all devices of this process, and the part of a process other than the first.

use super::backbone::Backbone;
use super::job::Job;
use super::launch::{Done, Launch};
use crate::failure::Failure;
use crate::fitting::replicas::{self, Lead};
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::methods::OnBackbone;
use gorgon_train::trainer::{Outcome, Report};
use serde_json::Value;
use std::path::Path;

impl Launch<'_> {
    /// The part of a process other than the first: it computes gradients and writes nothing.
    pub(super) fn assist<F: OnBackbone>(
        &self,
        mut job: Job<F>,
        make: &(impl Fn(Backbone) -> Result<Job<F>, Failure> + Sync),
    ) -> Result<Done, Failure> {
        let Self { config, settings, .. } = *self;
        if config.caches_features() {
            job.cache(&job.cache_request(config, &self.before), false, settings)?;
        }
        let (_scratch, run) = replicas::scratch()?;
        self.fit_on_all(&job, &run, None, make, &mut |_| ())?;
        Ok(Done::Planned(Value::Null))
    }

    /// Fits on all devices of this process. What replicas read of each other lies in the folder `shared`, if there is
    /// one.
    pub(super) fn fit_on_all<F: OnBackbone>(
        &self,
        job: &Job<F>,
        run: &RunDir,
        shared: Option<&Path>,
        make: &(impl Fn(Backbone) -> Result<Job<F>, Failure> + Sync),
        observe: &mut (dyn FnMut(Report) + Send),
    ) -> Result<Outcome, Failure> {
        let Self { config, dir, .. } = *self;
        let data = job.objective.data();
        let request = config.caches_features().then(|| job.cache_request(config, &self.before));
        let copy = |settings: &Settings| {
            let mut copy = make(Backbone::copy(data, job.objective.lm_head(), config, dir, settings)?)?;
            copy.check(config, settings)?;
            if let Some(request) = &request {
                copy.cache(request, false, settings)?;
            }
            if let Some(folder) = shared {
                copy.objective.attach(folder);
            }
            Ok(copy.objective)
        };
        let lead = Lead { objective: &job.objective, run, fit: &job.fit };
        replicas::fit(&lead, &copy, self.replicas, observe)
    }
}
